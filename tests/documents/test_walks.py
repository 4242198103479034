"""Three more journeys, followed literally: an approval, two nodes on PostgreSQL, a task that was Celery's."""

import json
import shlex
import signal
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.documents.walking import HOLDFAST, PYTHON, Walk, patience_s, run, running, server
from tests.postgres import database_url
from tests.processes import eventually

pytestmark = pytest.mark.slow


def typed(page: Walk, command: str, *more: str) -> list[str]:
    """A command that the page shows, as a process of this Python."""
    assert page.shows(command), command
    program, *words = shlex.split(command)
    return [*(HOLDFAST if program == "holdfast" else PYTHON), *words, *more]


def ask(url: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(url, data, timeout=patience_s) as answer:
        return json.loads(answer.read())


def test_an_approval_continues_an_execution_that_two_workers_have_let_wait(tmp_path: Path) -> None:
    page = Walk("how-to/approval.md")
    (tmp_path / "expenses.py").write_text(page.programs[0], "utf-8")
    assert run([*PYTHON, "expenses.py"], tmp_path) == []
    worker = [*HOLDFAST, "worker", "expenses:app"]
    with server(tmp_path) as (_, url), running(worker, tmp_path, url), running(worker, tmp_path, url):
        start = "holdfast invoke expense-10 --func expense --arg laptop --arg 150000"
        run(typed(page, start), tmp_path, url)
        execution = f"{url}/v1/executions/expense-10"
        eventually(lambda: ask(execution)["status"] == "suspended")
        tree = run(typed(page, "holdfast tree expense-10"), tmp_path, url)
        [shown] = page.shown_after("holdfast tree expense-10")
        assert [line.split(" (")[0] for line in tree] == [line.split(" (")[0] for line in shown]
        # What the button of the console sends; tests/browser clicks it.
        ask(f"{url}/v1/promises/expense-10:approval/resolve", {"value": True})
        assert eventually(lambda: ask(execution).get("result")) == "approved"


@pytest.mark.skipif(not hasattr(signal, "SIGQUIT"), reason="Ctrl-\\ is for terminals of Unix")
def test_the_second_node_completes_an_order_after_the_first_was_killed(tmp_path: Path) -> None:
    page = Walk("tutorial/6-cluster.md")
    (tmp_path / "shop.py").write_text(Walk("tutorial/1-orders.md").programs[0], "utf-8")
    store = ("--store", database_url())
    with server(tmp_path, *store) as (first, one), server(tmp_path, *store) as (_, two):
        both = f"{one},{two}"
        with running([*HOLDFAST, "worker", "shop:app"], tmp_path, both):
            before = 'holdfast invoke order-3 --func checkout --json-args \'["tea", 2, "4242", 1999]\' --wait'
            told = run(typed(page, before, "--limit", "100s"), tmp_path, both)
            assert "parcel with tea, receipt for 1999" in "\n".join(told)
            first.send_signal(signal.SIGQUIT)
            first.wait(patience_s)
            after = 'holdfast invoke order-4 --func checkout --json-args \'["milk", 1, "4242", 199]\' --wait'
            told = run(typed(page, after, "--limit", "100s"), tmp_path, both)
            assert "parcel with milk, receipt for 199" in "\n".join(told)


def test_a_task_that_was_celerys_is_run_by_a_worker_of_its_own(tmp_path: Path) -> None:
    page = Walk("choosing/from-celery.md")
    (tmp_path / "durable_mail.py").write_text(page.programs[-1], "utf-8")
    check = "holdfast check durable_mail:app"
    assert run(typed(page, check), tmp_path) in page.shown_after(check)
    send = "python -c \"from durable_mail import send_mail; print(send_mail.send('a@b.c').get(timeout=10))\""
    shown = page.shown_after(send)
    patient = [word.replace("timeout=10", "timeout=100") for word in typed(page, send)]
    with running(typed(page, "holdfast worker durable_mail:app"), tmp_path):
        assert [run(patient, tmp_path)] == shown
