"""docs/start/ten-minutes.md, followed literally: the programs, the kill, the tree, the server."""

import json
import signal
import urllib.request
from pathlib import Path

import pytest

from tests.documents.walking import HOLDFAST, PYTHON, Walk, patience_s, run, running, server

PAGE = Walk("start/ten-minutes.md")
SHOP = PAGE.programs[0]


def test_the_first_workflow_prints_what_the_page_shows(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP, "utf-8")
    first, _killed, _again = PAGE.shown_after("python shop.py")
    assert run([*PYTHON, "shop.py"], tmp_path) == first
    assert run([*PYTHON, "shop.py"], tmp_path) == first[-1:], "its result is read, and nothing is done again"


@pytest.mark.skipif(not hasattr(signal, "SIGQUIT"), reason="Ctrl-\\ is for terminals of Unix")
def test_a_killed_process_is_followed_by_one_that_goes_on(tmp_path: Path) -> None:
    slower = SHOP.replace("time.sleep(0.5)", "time.sleep(3)").replace("order-17", "order-18")
    (tmp_path / "shop.py").write_text(slower, "utf-8")
    _first, killed, again = PAGE.shown_after("python shop.py")
    assert killed[-1] == "^\\Quit"
    with running([*PYTHON, "shop.py"], tmp_path) as process:
        assert process.stdout
        assert [process.stdout.readline().strip() for _ in killed[:-1]] == killed[:-1]
        process.send_signal(signal.SIGQUIT)
        assert process.wait(patience_s) == -signal.SIGQUIT
    assert run([*PYTHON, "shop.py"], tmp_path) == again
    tree = run([*HOLDFAST, "tree", "order-18", "-S", "sqlite:///holdfast.db"], tmp_path)
    [shown] = PAGE.shown_after("holdfast tree order-18 -S sqlite:///holdfast.db")
    assert [line.split(" (")[0] for line in tree] == [line.split(" (")[0] for line in shown]


def test_a_server_with_a_worker_runs_orders_from_the_shell_and_from_http(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP, "utf-8")
    with server(tmp_path) as (_, url), running([*HOLDFAST, "worker", "shop:app"], tmp_path, url) as worker:
        assert worker.stdout
        order = ["invoke", "order-19", "--func", "checkout", "--arg", "tea", "--arg", "1999", "--wait"]
        assert "receipt for 1999" in "\n".join(run([*HOLDFAST, *order, "--limit", "100s"], tmp_path, url))
        body = json.dumps({"workflow": "checkout", "args": ["tea", 1999], "id": "order-20"}).encode()
        with urllib.request.urlopen(f"{url}/v1/executions", body, timeout=patience_s) as answer:
            assert answer.status < 300
        with urllib.request.urlopen(f"{url}/console/", timeout=patience_s) as page:
            assert b"<html" in page.read()
        lines = [worker.stdout.readline().strip() for _ in range(6)]
        assert lines == ["reserve tea", "charge 1999", "ship tea"] * 2
