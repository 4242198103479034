"""Nothing that fails is silent: each failed attempt is logged once, and what it said is kept."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.testing import World
from tests.jobs import yard
from tests.jobs.test_defects import Yard, sending_to, within_s
from tests.processes import eventually

FIELDS = ("execution", "task", "attempt", "code", "worker")


def failures(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """The lines about failed attempts: their level, their fields, what they say."""
    told = [record for record in caplog.records if "failed in attempt" in record.getMessage()]
    return [
        {name: record.__dict__[name] for name in FIELDS}
        | {"level": record.levelname, "text": record.getMessage(), "trace": record.exc_text or ""}
        for record in told
    ]


def test_each_failed_attempt_is_logged_once_with_what_follows(caplog: pytest.LogCaptureFixture) -> None:
    app = hf.App(exception_codes={ConnectionError: "SMTP_DOWN"})

    @app.task(retry=hf.Retry.fixed([1, 1]))
    def mail() -> None:
        raise ConnectionError(f"no route in attempt {hf.current().attempt}")

    with World(app), caplog.at_level(logging.INFO, "holdfast"):
        handle = mail.send()
        assert handle.get().is_err
    told = failures(caplog)
    assert [line["level"] for line in told] == ["WARNING", "WARNING", "ERROR"]
    assert [(line["task"], line["execution"], line["attempt"], line["code"]) for line in told] == [
        ("mail", handle.id, number, "SMTP_DOWN") for number in (1, 2, 3)
    ]
    assert all(line["worker"] for line in told)
    assert "no route in attempt 2" in told[1]["text"]
    assert "Traceback" in told[1]["trace"]
    assert 'raise ConnectionError(f"no route' in told[1]["trace"]


def test_a_failure_without_a_message_ends_with_its_code(caplog: pytest.LogCaptureFixture) -> None:
    app = hf.App()

    @app.task
    def mail() -> hf.TaskResult[str, hf.TaskError]:
        return hf.TaskResult(err=hf.TaskError("DOWN"))

    with World(app):
        mail.send().get()
    assert failures(caplog)[0]["text"].endswith("tried again: DOWN")


def test_what_every_attempt_said_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    app = hf.App()

    @app.task(retry=hf.Retry.fixed([1] * 13))
    def flaky() -> hf.TaskResult[str, hf.TaskError]:
        number = hf.current().attempt
        if number == 14:
            return hf.TaskResult(err=hf.TaskError("TIRED", "enough"))
        raise ValueError(f"attempt {number} " + "x" * 10_000)

    with World(app):
        handle = flaky.send()
        handle.get()
        attempts = handle.info().attempts
    assert [each.number for each in attempts if each.error is not None] == [
        4,
        5,
        6,
        7,
        8,
        9,
        10,
        11,
        12,
        13,
        14,
    ]
    assert attempts[9].error is not None
    assert attempts[9].error.startswith("attempt 10 ")
    assert attempts[9].traceback is not None
    assert attempts[9].traceback.startswith("...\n")
    assert (attempts[-1].error, attempts[-1].traceback) == ("enough", None)


class Backwards:
    def encode(self, raw: bytes) -> bytes:
        return raw[::-1]

    def decode(self, raw: bytes) -> bytes:
        return raw[::-1]


def test_what_an_attempt_said_goes_through_the_codec(tmp_path: Path) -> None:
    app = hf.App(f"sqlite:///{tmp_path}/tasks.db", codec=Backwards())

    @app.task(retry=hf.Retry.fixed([0.01]))
    def secret() -> None:
        raise ValueError("the password is 1234")

    with app:
        handle = secret.send()
        assert handle.get(timeout=within_s).is_err
        assert [each.error for each in handle.info().attempts] == ["the password is 1234"] * 2
        assert handle.info().attempts[0].traceback is not None
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.name.startswith("tasks.db"))
    assert b"1234" not in stored


@pytest.mark.parametrize("task", [yard.work, yard.fragile], ids=["retried", "not retried"])
def test_a_task_whose_worker_died_is_logged_by_the_node(
    task: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"sqlite:///{tmp_path}/shared.db"
    here = Yard(url, tmp_path)
    with caplog.at_level(logging.INFO, "holdfast"), sending_to(url):
        worker = here.worker("--queues", "quick", lease="1s")
        handle = task.send(60.0)
        here.wait_for("begin", handle)
        worker.kill()
        [told] = eventually(
            lambda: [record for record in caplog.records if "fell silent" in record.getMessage()], within_s
        )
    assert told.levelname == ("WARNING" if task is yard.work else "ERROR")
    fields = {name: told.__dict__[name] for name in FIELDS}
    assert (fields["execution"], fields["task"], fields["code"]) == (handle.id, task.name, "WORKER_CRASHED")


async def test_what_was_cancelled_is_no_failure(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    app = hf.App(f"sqlite:///{tmp_path}/tasks.db")
    began = asyncio.Event()

    @app.task
    async def waits() -> None:
        began.set()
        await asyncio.sleep(60)

    with caplog.at_level(logging.INFO, "holdfast"):
        async with app:
            handle = await waits.send_async()
            await began.wait()
            await handle.cancel_async(force=True)
            assert (await handle).err_value.error_code == "TASK_CANCELLED"
    assert failures(caplog) == []
