"""The same seeds on every Python that is here: `make simulate-versions`. Their event logs must be the same.

Interpreters are found by name on the PATH and below `~/.pyenv/versions`; each gets a virtual environment, but
for the one that runs this.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
VERSIONS = ("3.11", "3.12", "3.13")
COUNT = "20"


def interpreters() -> dict[str, str]:
    found: dict[str, str] = {}
    for version in VERSIONS:
        below = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
        here = str(below[-1]) if below else shutil.which(f"python{version}")
        if here is not None:
            found[version] = here
    return found


def environment(version: str, interpreter: str) -> str:
    """The Python to run, with everything installed that the simulation needs."""
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    folder = f".venv-{version}"
    make = ["make", "--no-print-directory", f"VENV={folder}", f"PYTHON={interpreter}", f"{folder}/.installed"]
    subprocess.run(make, cwd=ROOT, check=True)
    return f"{folder}/bin/python"


def digests(version: str, interpreter: str) -> str:
    python = environment(version, interpreter)
    command = [python, "-m", "tests.simulation.campaign", "--digests", "--count", COUNT]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def main() -> int:
    found = interpreters()
    results = {version: digests(version, interpreter) for version, interpreter in found.items()}
    print(f"{COUNT} seeds on Python {', '.join(results)}")
    if len(results) < 2:
        print("one interpreter alone agrees with itself: install another one of", *VERSIONS)
        return 1
    same = len(set(results.values())) == 1
    print("the event logs are the same" if same else "the event logs differ")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
