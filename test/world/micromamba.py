#!/usr/bin/python3
"""
The command line of micromamba in front of another engine, since micromamba itself cannot be had from any
registry of packages. What is behind it is real: rattler, the engine of pixi, reads the channels, solves,
downloads, checks, unpacks, links and keeps the records below conda-meta. What is in front is ours, and
takes those commands of micromamba 1.5 that the recipes of Sluice use, no other; no conda-lock.yml either.
"""
import argparse
import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml
from rattler import (
    Channel,
    Client,
    Gateway,
    MatchSpec,
    PackageRecord,
    PrefixRecord,
    RepoDataRecord,
    VirtualPackage,
    VirtualPackageOverrides,
    install,
    solve,
)
from rattler.explicit_environment import ExplicitEnvironmentSpec
from rattler.package_streaming import PackageArchive

prefix = Path(os.environ["MAMBA_ROOT_PREFIX"])
cache = prefix / "pkgs"
alias = os.environ.get("MAMBA_CHANNEL_ALIAS", "https://conda.anaconda.org").rstrip("/")


def installed():
    return [PrefixRecord.from_path(path) for path in sorted(prefix.glob("conda-meta/*.json"))]


def address(channel):
    return channel if "://" in channel else f"{alias}/{channel}"


def with_address(spec):
    channel, separator, rest = spec.rpartition("::")
    return address(channel) + separator + rest if separator else spec


async def solved(specs, channels, keep):
    """The records that satisfy what is asked for, beside what is installed already."""
    wanted = [MatchSpec(with_address(spec)) for spec in specs]
    wanted += [MatchSpec(record.name.normalized) for record in installed()]
    named = [spec.rpartition("::")[0] for spec in specs if "::" in spec]
    sources = dict.fromkeys(address(name) for name in [*channels, *named])
    return await solve(
        sources=[Channel(source) for source in sources],
        specs=wanted,
        gateway=Gateway(cache_dir=cache / "cache"),
        locked_packages=installed(),
        pinned_packages=installed() if keep else [],
        virtual_packages=VirtualPackage.detect(VirtualPackageOverrides.from_env()),
    )


async def locked(text, scratch):
    """The records of an explicit list, each from what the package says of itself; the list has the checksum."""
    records = {record.name.normalized: record for record in installed()}
    for entry in ExplicitEnvironmentSpec.from_str(text).packages:
        url, _, checksum = entry.url.partition("#")
        archive = await PackageArchive.from_url(Client(), url, sparse="disable")
        index = Path(scratch, "index.json")
        index.write_bytes(await archive.read_file("info/index.json"))
        kind = "sha256" if checksum.startswith("sha256:") else "md5"
        sums = {kind: checksum.removeprefix("sha256:")} if checksum else {}
        found = PackageRecord.from_index_json(index, **sums)
        channel, _, file_name = url.rsplit("/", 2)
        records[found.name.normalized] = RepoDataRecord(found, file_name, url, channel + "/")
    return list(records.values())


def run_pip(requirements, scratch):
    listed = Path(scratch, "requirements.txt")
    listed.write_text("\n".join(requirements) + "\n")
    python = prefix / "bin/python"
    options = ["--upgrade", "--no-input", "--requirement", listed]
    subprocess.run([python, "-m", "pip", "install", *options], check=True)


async def run_install(asked, scratch):
    specs, channels, requirements = asked.specs, asked.channel, []
    text = Path(asked.file).read_text() if asked.file else ""
    if "@EXPLICIT" in text.splitlines():
        records = await locked(text, scratch)
    else:
        environment = yaml.safe_load(text) if asked.file else {"dependencies": []}
        if "dependencies" not in environment:
            raise ValueError(f"{asked.file} is not an environment file")
        for item in environment["dependencies"]:
            requirements += item["pip"] if isinstance(item, dict) else []
            specs += [] if isinstance(item, dict) else [item]
        channels += environment.get("channels", [])
        records = await solved(specs, channels, asked.freeze_installed)
    for record in sorted(records, key=lambda record: record.file_name):
        print(" ", record.name.normalized, record.version, record.build, record.channel)
    if asked.dry_run:
        return
    await install(records, prefix, cache_dir=cache, show_progress=False)
    if requirements:
        run_pip(requirements, scratch)


def run_export():
    records = {record.name.normalized: record for record in installed()}
    print("@EXPLICIT")
    for sorted_record in PackageRecord.sort_topologically(list(records.values())):
        record = records[sorted_record.name.normalized]
        print(f"{record.url}#{record.md5.hex()}" if record.md5 else record.url)


def command_line():
    parser = argparse.ArgumentParser("micromamba", allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)
    adding = commands.add_parser("install", allow_abbrev=False)
    adding.add_argument("--yes", action="store_true", required=True)
    adding.add_argument("--name", choices=["base"], required=True)
    adding.add_argument("--file")
    adding.add_argument("--channel", action="append", default=[])
    adding.add_argument("--freeze-installed", action="store_true")
    adding.add_argument("--dry-run", action="store_true")
    adding.add_argument("specs", nargs="*")
    telling = commands.add_parser("env", allow_abbrev=False)
    telling.add_argument("action", choices=["export"])
    telling.add_argument("--name", choices=["base"], required=True)
    telling.add_argument("--explicit", action="store_true", required=True)
    cleaning = commands.add_parser("clean", allow_abbrev=False)
    cleaning.add_argument("--all", action="store_true", required=True)
    cleaning.add_argument("--yes", action="store_true", required=True)
    return parser.parse_args()


def run(asked):
    try:
        with tempfile.TemporaryDirectory() as scratch:
            match asked.command:
                case "install":
                    asyncio.run(run_install(asked, scratch))
                case "env":
                    run_export()
                case "clean":
                    shutil.rmtree(cache, ignore_errors=True)
        return 0
    except subprocess.CalledProcessError as error:
        return error.returncode
    except Exception as error:
        print(f"error    {error}", file=sys.stderr)
        return 1


code = run(command_line())
sys.stdout.flush()
sys.stderr.flush()
# Threads of the engine live on: now and then they crash an interpreter that shuts down in order.
os._exit(code)
