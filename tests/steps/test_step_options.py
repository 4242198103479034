"""The options of a step: which are refused, and which words are the function's own."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import holdfast as hf
from holdfast.payloads.errors import BadRetry
from holdfast.steps.retry import Retry
from holdfast.testing import World
from tests.steps.test_steps import jumping, start, step

app = hf.App("memory:")


def fails() -> None:
    raise ValueError("no")


given: dict[str, Any] = {}


@app.workflow
async def with_options() -> str:
    try:
        await hf.run(fails, **given)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "went well"


def outcome_with(**options: Any) -> str:
    given.clear()
    given.update(options)
    with World(app) as world:
        outcome: str = app.start(with_options).result()
        world.settle_down()
    return outcome


@pytest.mark.parametrize("retry", [5, "3", Retry])
def test_a_retry_that_is_no_policy_for_steps_is_refused_where_it_is_given(retry: Any) -> None:
    assert outcome_with(retry=retry).startswith("BadRetry: retry must be a Retry, not ")


@pytest.mark.parametrize(
    ("retry", "why"),
    [
        (Retry(retry_for=["SMTP_DOWN"]), "retry_for lists error codes"),
        (Retry(retry_crashes=False), "is for tasks"),
    ],
)
def test_what_only_a_task_can_have_is_refused_for_a_step(retry: Retry, why: str) -> None:
    assert why in outcome_with(retry=retry)


@pytest.mark.parametrize(
    "options",
    [
        {"retry_on": [ValueError]},
        {"retry_on": ValueError("no")},
        {"retry_on": "ValueError"},
        {"give_up_on": (KeyError, int)},
        {"attempts": "3"},
        {"attempts": 2.5},
    ],
)
def test_a_policy_of_the_wrong_types_is_refused_when_it_is_made(options: dict[str, Any]) -> None:
    with pytest.raises(BadRetry, match=next(iter(options))):
        Retry(**options)


class Undecided(type):
    def __instancecheck__(cls, instance: object) -> bool:
        raise LookupError("nobody knows")


class Sly(Exception, metaclass=Undecided):
    pass


def test_an_error_out_of_a_policy_ends_the_step() -> None:
    async def fails() -> None:
        raise ValueError

    outcome = jumping(lambda runner: start(runner, step(fails), retry=Retry(retry_on=Sly)))
    assert isinstance(outcome.error, LookupError)
    assert isinstance(outcome.error.__context__, ValueError)
    assert outcome.attempts == 1


@pytest.mark.parametrize("mode", ["proces", "", 7, ["thread"]])
def test_an_unknown_mode_is_refused_where_it_is_given(mode: Any) -> None:
    refused = outcome_with(mode=mode)
    assert refused.startswith("BadStepOption: mode must be one of auto, thread, async, process, inline, not ")
    assert refused.endswith("[HF5014]")


def test_an_option_that_is_none_is_as_if_it_were_not_given() -> None:
    assert outcome_with(mode=None, name=None, retry=None, timeout=None) == "ValueError: no"


@pytest.mark.parametrize("name", [7, "", b"pay"])
def test_a_name_that_is_no_text_is_refused_where_it_is_given(name: Any) -> None:
    assert outcome_with(name=name).startswith("BadStepOption: name must be a string, not ")


def decorated(function: Callable[..., str]) -> Callable[..., str]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> str:
        return function(*args, **kwargs)

    return wrapper


def deadlined(function: Callable[..., str]) -> Callable[..., str]:
    @functools.wraps(function)
    def wrapper(*args: Any, timeout: int = 0, **kwargs: Any) -> str:
        return f"{function(*args, **kwargs)} in {timeout}"

    return wrapper


def hello(name: str = "?") -> str:
    return f"hello {name}"


def plainly(word: str, /, name: str = "?", *, mode: str = "?") -> str:
    return f"{word} {name} {mode}"


def by_place(name: str, /) -> str:
    return f"hello {name}"


@dataclass
class Greeter:
    name: str = "?"

    def greet(self, name: str = "?") -> str:
        return f"hello {name}"

    def __call__(self, word: str) -> str:
        return f"{word} {self.name}"


@app.workflow
async def greetings() -> list[str]:
    run: Any = hf.run
    return [
        await run(decorated(hello), name="Ada"),
        await run(decorated(decorated(hello)), name="Ada"),
        await run(deadlined(hello), name="Ada", timeout=5),
        await run(plainly, "hello", name="Ada", mode="loud"),
        await run(Greeter().greet, name="Ada"),
        "hello " + (await run(Greeter, name="Ada")).name,
        await run(by_place, "Ada", name="greet"),
        await run(functools.partial(hello, name="Ada"), name="greet"),
        await run(Greeter("Ada"), "hello", name="greet"),
    ]


def test_words_that_are_the_functions_own_reach_it_also_through_decorators() -> None:
    with World(app) as world:
        heard = app.start(greetings).result()
        assert heard[:4] == ["hello Ada", "hello Ada", "hello Ada in 5", "hello Ada loud"]
        assert heard[4:] == ["hello Ada"] * 5
        world.settle_down()
