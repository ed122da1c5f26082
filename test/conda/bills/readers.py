"""Reads documents with the programs that they are for, and prints what these have found as JSON."""

import importlib.util
import json
import sys
import types


def pixi(path):
    from rattler.lock import LockFile

    lock = LockFile.from_path(path)
    found = lock.default_environment()
    return {
        "channels": [str(channel) for channel in found.channels()],
        "platforms": {
            platform.name: [
                {
                    "url": record.url,
                    "name": record.name.normalized,
                    "version": str(record.version),
                    "build": str(record.build),
                    "subdir": record.subdir,
                    "noarch": "generic" if record.noarch.generic else "python" if record.noarch.python else None,
                    "md5": record.md5.hex(),
                    "sha256": record.sha256.hex(),
                    "size": record.size,
                    "depends": record.depends,
                    "constrains": record.constrains,
                    "license": record.license,
                }
                for record in found.conda_repodata_records_for_platform(platform)
            ]
            for platform in lock.platforms()
        },
    }


def conda_lock(path):
    # The package itself loads a package manager: only the models of its file are needed.
    folder = importlib.util.find_spec("conda_lock").submodule_search_locations[0]
    for name, place in {"conda_lock": folder, "conda_lock.lockfile": f"{folder}/lockfile"}.items():
        module = types.ModuleType(name)
        module.__path__ = [place]
        sys.modules[name] = module
    from conda_lock.lockfile.v1.models import Lockfile
    from ruamel.yaml import YAML

    with open(path) as file:
        content = YAML(typ="safe", pure=True).load(file)
    # As conda-lock itself does.
    version = content.pop("version")
    lock = Lockfile.parse_obj(content)
    return {
        "version": version,
        "platforms": lock.metadata.platforms,
        "hashes": lock.metadata.content_hash,
        "packages": [json.loads(one.json(exclude_none=True)) for one in lock.package],
    }


def spdx(path):
    from spdx_tools.spdx.parser.json.json_parser import parse_from_file
    from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

    document = parse_from_file(path)
    return {
        "faults": [fault.validation_message for fault in validate_full_spdx_document(document)],
        "packages": [
            {
                "name": package.name,
                "license": str(package.license_declared),
                "sums": {sum.algorithm.name: sum.value for sum in package.checksums},
                "purl": [reference.locator for reference in package.external_references],
            }
            for package in document.packages
        ],
    }


readers = {"pixi": pixi, "conda-lock": conda_lock, "spdx": spdx}
print(json.dumps(readers[sys.argv[1]](sys.argv[2])))
