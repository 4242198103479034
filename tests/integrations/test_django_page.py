"""docs/how-to/django.md, followed word by word in an empty folder: its files, then its commands."""

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.documents.pages import ROOT, blocks
from tests.integrations.test_web_servers import free_port
from tests.processes import environment, eventually

PAGE = (ROOT / "docs" / "how-to" / "django.md").read_text("utf-8")


COMMANDS = [
    line.partition("#")[0].split()[3:] for line in PAGE.splitlines() if line.startswith("$ python manage.py")
]


def write_files(folder: Path) -> None:
    """A block begins with the name of its file; settings are added to what is there."""
    for block in blocks(PAGE, "text"):
        first, _, text = block.partition("\n")
        if found := re.fullmatch(r"# (shop/\w+\.py)(, at the end)?", first):
            with (folder / found[1]).open("a" if found[2] else "w", encoding="utf-8") as file:
                file.write(f"\n{text}")


def run(folder: Path, *words: str) -> str:
    command = [sys.executable, *words]
    done = subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def running(folder: Path, *words: str) -> Generator[None]:
    with (folder / f"{words[0]}.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "manage.py", *words], cwd=folder, env=environment(), stdout=log, stderr=log
        )
    try:
        yield
        process.terminate()
        process.wait(60)
    finally:
        process.kill()
        process.wait()


def ask(url: str, body: bytes | None = None) -> dict[str, str] | None:
    try:
        with urllib.request.urlopen(url, body, timeout=60) as answer:
            found: dict[str, str] = json.loads(answer.read())
            return found
    except OSError:  # it is not there yet
        return None


def test_the_page_works_for_whoever_follows_it(tmp_path: Path) -> None:
    shown = [" ".join(words) for words in COMMANDS]
    assert shown[:4] == ["makemigrations shop", "migrate", "holdfast worker", "runserver"]
    run(tmp_path, "-m", "django", "startproject", "shop", ".")
    write_files(tmp_path)
    for words in COMMANDS:
        if words[0] in ("makemigrations", "migrate"):
            run(tmp_path, "manage.py", *words)
    site = f"http://127.0.0.1:{(port := free_port())}"
    with running(tmp_path, "runserver", "--noreload", str(port)), running(tmp_path, "holdfast", "worker"):
        assert eventually(lambda: ask(f"{site}/orders", b"card=4242")) == {"id": "order-1"}
        found = eventually(lambda: _ended(f"{site}/api/executions/order-1"))
        assert (found["status"], found["result"]) == ("completed", "paid with 4242")
        assert "order-1" in run(tmp_path, "manage.py", "holdfast", "list")


def _ended(url: str) -> dict[str, str] | None:
    found = ask(url)
    return found if found and found["status"] == "completed" else None
