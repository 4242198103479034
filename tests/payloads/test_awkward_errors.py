"""Errors whose own code raises: what raised them ends all the same, and says as much as can be said."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import msgspec
import pytest

import holdfast as hf
from holdfast.payloads import error_values
from holdfast.runtime import Signal, Step
from holdfast.steps.retry import Retry, next_delay
from holdfast.steps.runner import Mode, StepCall, StepOutcome, StepRunner
from holdfast.testing import World

patient = hf.Retry.fixed(["1m"], jitter=0)


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


@dataclass(frozen=True)
class Frozen(Exception):
    item: str = "book"


class Slotted(Exception):
    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(name)


class Guarded(Exception):
    @property
    def __traceback__(self) -> Any:  # type: ignore[override]
        raise KeyError("no traceback")

    @property
    def __context__(self) -> Any:  # type: ignore[override]
        raise KeyError("no context")

    @property
    def __cause__(self) -> Any:  # type: ignore[override]
        raise KeyError("no cause")


class Deciding(Exception):
    """What a retry policy asks it raises itself, and forbids assignment."""

    def __setattr__(self, name: str, value: object) -> None:
        raise self


forbidding: list[type[Exception]] = [Frozen, Slotted, Guarded, Deciding]


@pytest.mark.parametrize("mode", ["thread", "async", "inline"])
@pytest.mark.parametrize("make", forbidding)
async def test_a_step_whose_error_forbids_assignment_is_tried_again_and_ends(
    make: type[Exception], mode: Mode
) -> None:
    tries: list[int] = []

    def plain() -> None:
        tries.append(1)
        raise make()

    async def waiting() -> None:
        plain()

    runner = StepRunner()
    step = Step("step", waiting if mode == "async" else plain, (), {}, Signal())
    ended: asyncio.Future[StepOutcome] = asyncio.get_running_loop().create_future()
    runner.start(StepCall(step, Retry(attempts=2, delay=0), mode=mode), ended.set_result)
    outcome = await ended
    assert type(outcome.error) is make
    assert len(tries) == 2
    await runner.close()


async def test_a_policy_that_raises_an_error_which_forbids_assignment_ends_the_step() -> None:
    class Asked(type):
        def __instancecheck__(cls, instance: object) -> bool:
            raise Frozen("policy")

    class Picky(Exception, metaclass=Asked):
        pass

    def fail() -> None:
        raise ValueError("step")

    runner = StepRunner()
    ended: asyncio.Future[StepOutcome] = asyncio.get_running_loop().create_future()
    step = Step("step", fail, (), {}, Signal())
    runner.start(StepCall(step, Retry(attempts=2, retry_on=Picky), mode="inline"), ended.set_result)
    outcome = await ended
    assert isinstance(outcome.error, Frozen)
    assert isinstance(outcome.error.__context__, ValueError)
    await runner.close()


@pytest.mark.parametrize("make", [Frozen, Slotted, Guarded, Deciding])
def test_a_task_whose_error_forbids_assignment_fails_with_its_code(make: type[Exception]) -> None:
    app = hf.App()

    @app.task(retry=patient, exception_codes={Exception: "MINE"})
    def task() -> int:
        raise make()

    with World(app):
        handle = task.send()
        assert handle.get().err_value.error_code == "MINE"
        assert len(handle.info().attempts) == 2


@pytest.mark.parametrize("make", awkward)
def test_a_task_that_raises_an_awkward_error_fails_with_its_code(make: type[BaseException]) -> None:
    app = hf.App()

    @app.task(retry=patient, exception_codes={Exception: "MINE", Quitting: "MINE"})
    def task() -> int:
        raise make()

    with World(app) as world:
        began = world.now
        handle = task.send()
        assert handle.get().err_value.error_code == "MINE"
        assert len(handle.info().attempts) == 2
        assert world.now - began == timedelta(minutes=1), "nothing was asked for"


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
    described = error_values.describe(make())
    assert described["name"] == make.__name__
    assert msgspec.json.decode(msgspec.json.encode(described)) == described


def test_an_attribute_that_cannot_be_read_asks_for_nothing() -> None:
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
        handle = task.send()
        assert handle.get().err_value.error_code == "UNHANDLED_EXCEPTION"
        assert handle.info().status is hf.TaskStatus.FAILED


@pytest.mark.parametrize("make", forbidding)
def test_a_workflow_ends_whose_step_fiber_or_code_raises_an_error_that_forbids_assignment(
    make: type[Exception],
) -> None:
    app = hf.App()

    def step() -> None:
        raise make()

    @app.workflow
    async def by_step() -> str:
        try:
            await hf.run(step)
        except make:
            return "caught"
        return "nothing"

    @app.workflow
    async def by_itself() -> None:
        raise make()

    @app.workflow
    async def by_fiber() -> None:
        async def fail() -> None:
            raise make()

        await hf.gather(fail(), hf.sleep(5))

    with World(app):
        assert app.start(by_step).result() == "caught"
        with pytest.raises(make):
            app.start(by_itself).result()
        with pytest.raises(make):
            app.start(by_fiber).result()
