#!/usr/bin/python3
"""
Installs packages by rattler, the engine of pixi: the judge of our own installation. Takes a JSON object on its standard
input: the prefix that files shall name, the directory that takes its place, a directory for the cache, and the packages,
each with URL, size and digests.
"""
import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path

from rattler import Client, PackageRecord, RepoDataRecord, install
from rattler.package_streaming import PackageArchive


async def record_of(package, scratch):
    """The record that the package has of itself."""
    archive = await PackageArchive.from_url(Client(), package["url"], sparse="disable")
    index = Path(scratch, "index.json")
    index.write_bytes(await archive.read_file("info/index.json"))
    sums = {kind: package[kind] for kind in ("size", "sha256", "md5")}
    record = PackageRecord.from_index_json(index, **sums)
    channel, _, file_name = package["url"].rsplit("/", 2)
    return RepoDataRecord(record, file_name, package["url"], channel + "/")


async def run(order):
    with tempfile.TemporaryDirectory() as scratch:
        records = [await record_of(package, scratch) for package in order["packages"]]
        await install(
            records,
            order["target"],
            cache_dir=order["cache"],
            show_progress=False,
            alternative_target_prefix=order["prefix"],
        )


os.umask(0o022)
code = 0
try:
    asyncio.run(run(json.load(sys.stdin)))
except Exception as error:
    print(error, file=sys.stderr)
    code = 1
sys.stdout.flush()
sys.stderr.flush()
# Threads of the engine live on: now and then they crash an interpreter that shuts down in order.
os._exit(code)
