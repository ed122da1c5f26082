#!/usr/bin/python3
"""
Solves by rattler, the engine of pixi. Takes a JSON object on its standard input: the URL of a channel, and specifications.
Prints for each specification the file names of its solution in alphabetical order, or null where rattler finds none.
"""
import asyncio
import json
import os
import sys

from rattler import Channel, Gateway, MatchSpec, solve
from rattler.exceptions import SolverError

order = json.load(sys.stdin)


async def files_of(gateway, text):
    try:
        found = await solve(
            sources=[Channel(order["channel"])],
            specs=[MatchSpec(text)],
            gateway=gateway,
            platforms=["linux-64"],
        )
    except SolverError:
        return None
    return sorted(record.file_name for record in found)


async def all_files():
    gateway = Gateway()
    return [await files_of(gateway, text) for text in order["specs"]]


json.dump(asyncio.run(all_files()), sys.stdout)
sys.stdout.flush()
# Its own end sometimes crashes.
os._exit(0)
