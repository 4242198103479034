"""What the console is checked with: TypeScript and axe-core from npm, and a Chromium.

`make check` and `make test-browser` install it with this module, into directories that git ignores. What a
machine lacks is said in a sentence.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

here = Path(__file__).parent
modules = here / "node_modules"
axe = modules / "axe-core" / "axe.min.js"
compiler = modules / ".bin" / "tsc"
_names = ("chromium", "chromium-browser", "google-chrome", "chrome")


def install_modules() -> bool:
    """From npm, exactly what package-lock.json names. False: there is no npm."""
    lock, stamp = here / "package-lock.json", modules / ".package-lock.json"
    if stamp.exists() and compiler.exists() and stamp.stat().st_mtime >= lock.stat().st_mtime:
        return True
    npm = shutil.which("npm")
    if npm is None:
        return False
    subprocess.run([npm, "ci", "--no-audit", "--no-fund", "--loglevel=error"], cwd=here, check=True)
    stamp.touch()
    return True


def chromium() -> str:
    """The browser: HOLDFAST_CHROMIUM, or one on the path."""
    found = os.environ.get("HOLDFAST_CHROMIUM") or next(filter(None, map(shutil.which, _names)), None)
    if found is None:
        raise RuntimeError("There is no Chromium. Install the package `chromium`, or set HOLDFAST_CHROMIUM.")
    return found


def install_chromium() -> None:
    if any(map(shutil.which, _names)) or "HOLDFAST_CHROMIUM" in os.environ:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise SystemExit("There is no Chromium. Install the package `chromium`, or set HOLDFAST_CHROMIUM.")
    quiet = {"env": os.environ | {"DEBIAN_FRONTEND": "noninteractive"}, "stdout": subprocess.DEVNULL}
    subprocess.run(["apt-get", "update", "-qq"], check=True, **quiet)  # type: ignore[call-overload]
    words = ["apt-get", "install", "-qq", "-y", "--no-install-recommends", "chromium", "fonts-dejavu-core"]
    subprocess.run(words, check=True, **quiet)  # type: ignore[call-overload]


def check_types() -> int:
    """The types of the console's modules. Without npm they are not checked, and that is said."""
    if not install_modules():
        sys.stderr.write("npm was not found: the types of the console are not checked\n")
        return 0
    return subprocess.run([compiler, "-p", here / "tsconfig.json"], check=False).returncode


if __name__ == "__main__":
    if sys.argv[1:] == ["types"]:
        raise SystemExit(check_types())
    if not install_modules():
        raise SystemExit("npm was not found: axe-core comes from there")
    install_chromium()
