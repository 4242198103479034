"""What is in the wheel and in the source archive, and nothing else."""

import email
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.processes import environment

ROOT = Path(__file__).parent.parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
SOURCE = ROOT / "src"
wheel_bytes_max = 1_500_000


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make package` builds, without its environment."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
    env = environment({"SOURCE_DATE_EPOCH": "1700000000"})
    subprocess.run(command, cwd=ROOT, env=env, capture_output=True, check=True)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    [found] = built.glob("*.whl")
    return found


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {*archive.namelist()}


def of_the_sources() -> set[str]:
    kept = (path for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(SOURCE).as_posix() for path in kept}


def test_the_wheel_has_the_package_and_nothing_else(wheel: Path) -> None:
    info = f"holdfast-{PROJECT['version']}.dist-info"
    more = {f"{info}/{name}" for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt")}
    assert names(wheel) == of_the_sources() | more | {f"{info}/licenses/LICENSE"}


def test_the_wheel_has_types_migrations_and_no_tests_or_caches(wheel: Path) -> None:
    found = names(wheel)
    assert "holdfast/py.typed" in found
    assert "holdfast/store/migrations/sqlite/0001_records.sql" in found
    assert "holdfast/store/migrations/postgres/0001_records.sql" in found
    foreign = [
        name for name in found if name.startswith(("tests", "bench")) or name.endswith((".pyc", ".db"))
    ]
    assert foreign == []


def test_the_wheel_is_for_every_system_and_small(wheel: Path) -> None:
    assert wheel.name == f"holdfast-{PROJECT['version']}-py3-none-any.whl"
    assert wheel.stat().st_size < wheel_bytes_max


def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    info = f"holdfast-{PROJECT['version']}.dist-info"
    with zipfile.ZipFile(wheel) as archive:
        metadata = email.message_from_bytes(archive.read(f"{info}/METADATA"))
        scripts = archive.read(f"{info}/entry_points.txt").decode()
        licence = archive.read(f"{info}/licenses/LICENSE")
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == PROJECT["requires-python"]
    assert metadata.get_all("Provides-Extra") == sorted(PROJECT["optional-dependencies"])
    assert licence == (ROOT / "LICENSE").read_bytes()
    assert "holdfast = holdfast.cli:main" in scripts
    assert "holdfast = holdfast.testing.plugin" in scripts


def test_the_page_of_the_package_is_the_readme(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith("METADATA")]
        metadata = email.message_from_bytes(archive.read(name))
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload().strip() == (ROOT / "README.md").read_text("utf-8").strip()  # type: ignore[union-attr]  # pyright: ignore[reportAttributeAccessIssue]


def test_the_source_archive_can_build_the_wheel_and_holds_no_caches(built: Path) -> None:
    [archive] = built.glob("*.tar.gz")
    top = f"holdfast-{PROJECT['version']}"
    with tarfile.open(archive) as files:
        found = {name.removeprefix(f"{top}/") for name in files.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "PKG-INFO"} <= found
    assert {f"src/{name}" for name in of_the_sources()} <= found
    assert not [
        name for name in found if "__pycache__" in name or "/.cache/" in name or name.startswith(".venv")
    ]


@pytest.mark.slow
def test_the_wheel_works_by_itself(wheel: Path, tmp_path: Path) -> None:
    """As `uvx holdfast` would have it: nothing of this checkout is on the path."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    program = (
        "import holdfast.cli; print(holdfast.cli.__file__); raise SystemExit(holdfast.cli.main(['demo']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment({"PYTHONPATH": str(tmp_path / "site")}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(tmp_path / "site"))
    assert "✓ order-17 (order)" in done.stdout
