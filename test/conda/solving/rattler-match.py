#!/usr/bin/python3
"""
Matches specifications by rattler, the engine of pixi. Takes a JSON object on its standard input: records of packages, and
specifications. Prints for each specification the file names of the matching packages, newest first, or null for one that
rattler refuses.
"""
import json
import sys

from rattler import MatchSpec, PackageRecord, Version
from rattler.package.build_string import BuildString

order = json.load(sys.stdin)
records = {}
for one in order["records"]:
    record = PackageRecord(one["name"], one["version"], BuildString(one["build"]), one["build_number"], "linux-64")
    records.setdefault(one["name"], []).append((Version(one["version"]), one["build_number"], one["file"], record))
for found in records.values():
    found.sort(key=lambda it: it[:2], reverse=True)


def matches(text):
    try:
        spec = MatchSpec(text)
    except Exception:
        return None
    candidates = records.get(spec.name.normalized, [])
    return [file for _, _, file, record in candidates if spec.matches(record)]


json.dump([matches(text) for text in order["specs"]], sys.stdout)
