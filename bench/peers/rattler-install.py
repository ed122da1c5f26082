#!/usr/bin/python3
"""
Installs packages of a channel by rattler, the engine of pixi, and packs the environment: tar, then gzip. Takes a JSON
object on its standard input and prints the time in milliseconds.
"""
import asyncio
import json
import os
import subprocess
import sys
import time

from rattler import Client, Gateway, MatchSpec, install


async def records_of(order):
    """Reads the repository data, which the time does not count."""
    specs = [MatchSpec(name) for name in order["names"]]
    found = await Gateway().query([order["channel"]], order["subdirs"], specs, recursive=False)
    return [record for group in found for record in group]


async def run(order):
    records = await records_of(order)
    assert len(records) == len(order["names"]), f"{len(records)} records"
    began = time.monotonic()
    await install(
        records,
        order["target"],
        cache_dir=order["cache"],
        show_progress=False,
        alternative_target_prefix="/opt/conda",
    )
    archive = order["target"] + ".tar.gz"
    subprocess.run(["tar", "-czf", archive, "-C", order["target"], "."], check=True)
    return (time.monotonic() - began) * 1000, os.stat(archive).st_size


took, size = asyncio.run(run(json.load(sys.stdin)))
print(json.dumps({"ms": took, "layerBytes": size}))
sys.stdout.flush()
os._exit(0)
