"""What it costs to have Holdfast: the time of an import, and what `pip install holdfast` brings.

Times are those of whole processes that do nothing else, the start of Python included, each the median of
many runs; beside the wall clock stands the CPU time, which a busy machine disturbs less. Sizes are those of a
fresh environment, by the difference that installing the wheel makes. Run it with `make bench-packaging`; it
needs the package index.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

from bench.table import Row, print_table

ROOT = Path(__file__).parent.parent
RUNS = 25
import_ms_max = 60
version_ms_max = 120
packages_max = 8
megabytes_max = 15


def measure(command: list[str]) -> tuple[float, float]:
    """Milliseconds of one process: wall clock, CPU."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    took = perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return took * 1000, cpu * 1000


def medians(commands: dict[str, list[str]]) -> dict[str, tuple[float, float]]:
    """In turns, so that a busy moment meets all of them."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for _ in range(RUNS):
        for name, command in commands.items():
            taken[name].append(measure(command))
    return {
        name: (median(wall for wall, _ in times), median(cpu for _, cpu in times))
        for name, times in taken.items()
    }


def size_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def installed(python: Path) -> set[str]:
    listed = subprocess.run(
        [python, "-m", "pip", "list", "--format", "json", "--disable-pip-version-check"],
        check=True,
        capture_output=True,
    )
    return {each["name"] for each in json.loads(listed.stdout)}


def install(folder: Path) -> tuple[Path, set[str], float]:
    """A fresh environment with the wheel: its folder of scripts, the packages that came, and megabytes."""
    environment = folder / "environment"
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    scripts = environment / ("Scripts" if os.name == "nt" else "bin")
    packages, size = installed(scripts / "python"), size_bytes(environment)
    [wheel] = folder.glob("*.whl")
    pip = [str(scripts / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, str(wheel)], check=True, stderr=subprocess.DEVNULL)
    came = installed(scripts / "python") - packages
    return scripts, came, (size_bytes(environment) - size) / 1_000_000


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="holdfast-packaging-") as folder:
        scripts, packages, megabytes = install(Path(folder))
        python = str(scripts / "python")
        subprocess.run([scripts / "holdfast", "demo"], check=True, capture_output=True)
        found = medians(
            {
                "python": [python, "-c", "pass"],
                "import": [python, "-c", "import holdfast"],
                "version": [str(scripts / "holdfast"), "--version"],
                "app": [python, "-c", "import holdfast; holdfast.App"],
            }
        )

    def row(name: str, what: str, limit_ms: int | None) -> Row:
        wall, cpu = found[what]
        required = "none" if limit_ms is None else f"at most {limit_ms} ms"
        return Row(name, f"{wall:.0f} ms, CPU {cpu:.0f} ms", required, limit_ms is None or wall <= limit_ms)

    count = len(packages)
    print_table(
        f"packaging: Python {sys.version.split()[0]}; {', '.join(sorted(packages))}",
        [
            row("Python by itself", "python", None),
            row("import holdfast", "import", import_ms_max),
            row("holdfast --version", "version", version_ms_max),
            row("holdfast.App, and all it needs", "app", None),
            Row(
                "packages in a fresh environment",
                str(count),
                f"at most {packages_max}",
                count <= packages_max,
            ),
            Row("megabytes", f"{megabytes:.1f}", f"at most {megabytes_max}", megabytes <= megabytes_max),
        ],
    )


if __name__ == "__main__":
    main()
