"""Where the official SDKs come from: their registries. `make interop` fetches them with this module.

They are installed unchanged into directories that git ignores. What a machine lacks is said in a sentence,
and the tests that need it are skipped with that sentence.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

here = Path(__file__).parent
typescript = here / "ts"
node = typescript / "node_modules" / ".bin" / "node"
python_requirements = here / "py" / "requirements.txt"
python_environment = here / ".cache" / "py"
python = python_environment / "bin" / "python"

python_versions = ("3.12", "3.13", "3.14")


def missing(language: str) -> str | None:
    """Why the SDK of this language cannot be used here; None when it can."""
    if language == "ts":
        if node.exists():
            return None
        return "the TypeScript SDKs are not installed: `make interop` does it, and needs npm"
    if python.exists():
        return None
    return "resonate-sdk 0.8 needs Python 3.12 or newer, and none was found when `make interop` ran"


def install() -> None:
    _install_typescript()
    _install_python()


def _install_typescript() -> None:
    lock = typescript / "package-lock.json"
    stamp = typescript / "node_modules" / ".package-lock.json"
    if stamp.exists() and node.exists() and stamp.stat().st_mtime >= lock.stat().st_mtime:
        return
    npm = shutil.which("npm")
    if npm is None:
        sys.stderr.write("npm was not found: the TypeScript SDKs will be skipped\n")
        return
    subprocess.run([npm, "ci", "--no-audit", "--no-fund", "--loglevel=error"], cwd=typescript, check=True)


def _install_python() -> None:
    stamp = python_environment / ".installed"
    if stamp.exists() and stamp.stat().st_mtime >= python_requirements.stat().st_mtime:
        return
    interpreter = next(_interpreters(), None)
    if interpreter is None:
        sys.stderr.write("No Python 3.12 or newer was found: resonate-sdk will be skipped\n")
        return
    shutil.rmtree(python_environment, ignore_errors=True)
    subprocess.run([interpreter, "-m", "venv", python_environment], check=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "-r", str(python_requirements)], check=True)
    stamp.touch()


def _interpreters() -> Iterator[str]:
    """Interpreters that start and are new enough. A name on PATH may be a shim that does neither."""
    homes = [Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"]
    candidates = [sys.executable, *(f"python{version}" for version in python_versions)]
    for home in homes:
        for version in python_versions:
            candidates += [str(path / "bin" / "python3") for path in sorted(home.glob(f"{version}.*"))]
    for candidate in candidates:
        try:
            check = subprocess.run(
                [candidate, "-c", "import sys, venv; print(sys.version_info >= (3, 12))"],
                capture_output=True,
                text=True,
                check=False,
            )
        except OSError:
            continue
        if check.returncode == 0 and check.stdout.strip() == "True":
            yield candidate


if __name__ == "__main__":
    install()
