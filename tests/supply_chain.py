"""What the package consists of: its dependencies as pinned in the lock, as a CycloneDX document.

`python -m tests.supply_chain` (or `make sbom`) prints it. Only what an installation of the package brings
along is listed, each extra included; tools for development are not.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
import uuid
from importlib.metadata import PackageNotFoundError, distribution, requires
from pathlib import Path
from typing import Any

from msgspec import Struct

ROOT = Path(__file__).parent.parent
_pinned = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*])?==([^\s;\\]+)")
_hash = re.compile(r"--hash=sha256:([0-9a-f]{64})")


class Pin(Struct):
    name: str
    version: str
    hashes: list[str]


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def read_lock(path: Path = ROOT / "requirements-dev.lock") -> dict[str, Pin]:
    pins: dict[str, Pin] = {}
    latest: Pin | None = None
    for line in path.read_text("utf-8").splitlines():
        if found := _pinned.match(line):
            latest = pins[normal(found[1])] = Pin(found[1], found[2], [])
        if latest is not None:
            latest.hashes += _hash.findall(line)
    return pins


def shipped(package: str = "holdfast") -> dict[str, list[str]]:
    """Everything that is installed with the package, and what each of them needs."""
    found: dict[str, list[str]] = {}
    waiting = [(normal(package), True)]
    while waiting:
        name, with_extras = waiting.pop()
        if name in found:
            continue
        try:
            texts = requires(name) or []
        except PackageNotFoundError:
            continue  # for another platform or an older Python
        needs = [text for text in texts if with_extras or "extra ==" not in text]
        names = [normal(re.split(r"[\s\[<>=!~;(]", text, maxsplit=1)[0]) for text in needs]
        found[name] = sorted(set(names) - {name})
        # pyjwt[crypto] is the one dependency that is asked for with an extra.
        waiting += [(each, each == "pyjwt") for each in found[name]]
    return found


def licence_of(name: str) -> str:
    metadata = distribution(name).metadata
    [declared, *_] = metadata.get_all("License-Expression") or metadata.get_all("License") or [""]
    classifiers = [text for text in metadata.get_all("Classifier") or [] if text.startswith("License ::")]
    short = declared.splitlines()[0] if declared and len(declared) < 100 else ""
    return short or (classifiers[0].rpartition(":: ")[2] if classifiers else "unknown")


def document() -> dict[str, Any]:
    pins, tree = read_lock(), shipped()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    components: list[dict[str, Any]] = [
        {
            "type": "library",
            "bom-ref": name,
            "name": name,
            "version": pins[name].version,
            "purl": f"pkg:pypi/{name}@{pins[name].version}",
            "licenses": [{"license": {"name": licence_of(name)}}],
            "hashes": [{"alg": "SHA-256", "content": digest} for digest in pins[name].hashes],
        }
        for name in sorted(tree)
        if name in pins
    ]
    refs = {component["bom-ref"] for component in components} | {"holdfast"}
    stable = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(components, sort_keys=True))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{stable}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": "holdfast",
                "name": "holdfast",
                "version": project["version"],
                "licenses": [{"license": {"id": project["license"]}}],
            }
        },
        "components": components,
        "dependencies": [
            {"ref": name, "dependsOn": [need for need in needs if need in refs]}
            for name, needs in sorted(tree.items())
            if name in refs
        ],
    }


if __name__ == "__main__":
    json.dump(document(), sys.stdout, indent=2)
    sys.stdout.write("\n")
