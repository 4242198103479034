"""Errors whose own code raises: what raised them ends all the same, and says as much as can be said."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

import holdfast as hf
from holdfast.testing import World
from holdfast.worker import fault
from holdfast.worker.retry import Retry, next_delay

patient = hf.RetryPolicy.fixed(["1m"], jitter=False)


class Mute(Exception):
    def __str__(self) -> str:
        raise AttributeError("no text")


class Wavering(Exception):
    @property
    def retry_after(self) -> float:
        raise KeyError("retry-after")

    @property
    def retryable(self) -> bool:
        raise KeyError("retryable")


class Nameless:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class Asking(Exception):
    def __init__(self) -> None:
        super().__init__("busy")
        self.retry_after = Nameless()


class Quitting(BaseException):
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class Argumentless(Exception):
    @property
    def args(self) -> Any:  # type: ignore[override]
        raise RuntimeError("no arguments")


class Half(Exception):
    """Its text holds half a character, as a file's name may."""

    def __init__(self) -> None:
        super().__init__("no \udcff.txt")


awkward: list[type[BaseException]] = [Mute, Wavering, Asking, Quitting, Argumentless, Half]


@pytest.mark.parametrize("make", awkward)
def test_a_task_that_raises_an_awkward_error_fails_with_its_code(make: type[BaseException]) -> None:
    app = hf.App()

    @app.task(retry=patient, exception_codes={Exception: "MINE", Quitting: "MINE"})
    def task() -> int:
        raise make()

    with World(app) as world:
        began = world.now
        handle = task.send().ok_value
        assert handle.get().err_value.error_code == "MINE"
        assert len(handle.info().attempts) == 2
        assert world.now - began == timedelta(minutes=1), "no wish was heard"


@pytest.mark.parametrize("make", awkward)
def test_a_step_that_raises_an_awkward_error_fails_its_workflow(make: type[BaseException]) -> None:
    app = hf.App()
    tries: list[int] = []

    def step() -> None:
        tries.append(1)
        raise make()

    @app.workflow
    async def workflow() -> str:
        try:
            await hf.run(step, retry=hf.Retry(attempts=2))
        except Exception as error:
            return type(error).__name__
        return "nothing was raised"

    with World(app):
        expected = "StepExited" if make is Quitting else make.__name__
        assert app.start(workflow).result() == expected
    assert len(tries) == (1 if make is Quitting else 2)


@pytest.mark.parametrize("make", awkward)
def test_an_awkward_error_can_be_described_and_stored(make: type[BaseException]) -> None:
    described = fault.describe(make())
    assert described["name"] == make.__name__
    assert msgspec.json.decode(msgspec.json.encode(described)) == described


def test_an_attribute_that_cannot_be_read_is_no_wish() -> None:
    assert next_delay(Retry(delay=3, jitter=0), 1, 0.0, Wavering(), lambda: 0.0) == 3
    assert next_delay(Retry(delay=3, jitter=0), 1, 0.0, Asking(), lambda: 0.0) == 3


def test_a_task_whose_end_cannot_be_stored_ends_all_the_same() -> None:
    class Away:
        def encode(self, raw: bytes) -> bytes:
            if b"secret" in raw or b"error" in raw:
                raise ConnectionError("the key server is away")
            return raw

        def decode(self, raw: bytes) -> bytes:
            return raw

    app = hf.App(codec=Away())

    @app.task
    def task() -> str:
        return "secret"

    with World(app):
        handle = task.send().ok_value
        assert handle.get().err_value.error_code == "UNHANDLED_EXCEPTION"
        assert handle.info().status is hf.TaskStatus.FAILED
