"""Options of a workflow apart from its arguments: `with_options`, and `start` on the workflow itself."""

from datetime import UTC, datetime
from typing import Any

import pytest

import holdfast as hf
from holdfast.testing import World
from holdfast.workflow.errors import NoAsyncioHere

app = hf.App("memory:")


@app.workflow(tags={"team": "blue"}, timeout="1h")
async def checkout(card: str, cents: int) -> str:
    return f"{cents} on {card}"


@app.workflow
async def greets(id: str, tags: list[str], group: int) -> str:  # noqa: A002
    return f"{id} {tags} {group}"


@app.workflow
async def waits() -> float:
    deadline = hf.current().deadline
    assert deadline is not None
    return (deadline - datetime.fromtimestamp(0, UTC)).total_seconds()


@app.workflow
async def calls_with(options: dict[str, str]) -> Any:
    given: dict[str, Any] = options
    return await hf.call(checkout.with_options(**given), "visa", 3)


@app.workflow
async def calls_briefly() -> list[float]:
    now = (await hf.now()).timestamp()
    ended = await hf.call(waits.with_options(timeout="90s"))
    return [round(ended - now)]


@app.workflow
async def starts_from_inside() -> str:
    try:
        checkout.start("visa", 1)
    except NoAsyncioHere as error:
        return str(error)
    return "started"


def test_a_workflow_is_started_by_its_own_method() -> None:
    with World(app):
        assert checkout.start("visa", cents=1).result() == "1 on visa"


def test_an_id_and_tags_are_options_and_not_arguments() -> None:
    with World(app) as world:
        handle = checkout.with_options(id="order-17", tags={"customer": "4"}).start("visa", 1)
        assert handle.id == "order-17"
        assert handle.result() == "1 on visa"
        tags = world.store.promises["order-17"].tags
    assert (tags["team"], tags["customer"]) == ("blue", "4")


def test_arguments_may_be_called_like_options() -> None:
    with World(app):
        handle = greets.with_options(id="g1").start(id="Ada", tags=["a"], group=3)
        assert (handle.id, handle.result()) == ("g1", "Ada ['a'] 3")


def test_options_leave_the_workflow_itself_as_it_was() -> None:
    brief = checkout.with_options(id="x", tags={"a": "b"}, timeout="5s", group="slow")
    assert (brief.id, brief.timeout_s, brief.group) == ("x", 5.0, "slow")
    assert (checkout.id, checkout.timeout_s, checkout.group) == (None, 3600.0, None)
    assert checkout.tags == {"team": "blue"}
    again = brief.with_options(timeout="9s")
    assert (again.id, again.timeout_s, again.tags) == ("x", 9.0, {"team": "blue", "a": "b"})


def test_the_short_form_takes_a_workflow_with_options_and_its_own_id_wins() -> None:
    with World(app):
        brief = checkout.with_options(id="a", tags={"x": "y"})
        assert app.start(brief, "visa", 1).id == "a"
        assert app.start(brief, "visa", 1, id="b").id == "b"


def test_starting_again_under_an_id_finds_the_same_execution() -> None:
    with World(app):
        first = checkout.with_options(id="order-1").start("visa", 1)
        second = checkout.with_options(id="order-1").start("visa", 1)
        assert first.id == second.id
        with pytest.raises(hf.errors.IdTaken):
            checkout.with_options(id="order-1").start("visa", 2)


def test_a_start_in_asyncio_gives_a_handle_to_await() -> None:
    mine = hf.App("memory:")
    flow = mine.workflow(checkout.function)

    async def main() -> str:
        handle = await flow.with_options(id="a1").start("visa", 2).started()
        return await handle

    assert mine.run(main) == "2 on visa"


def test_a_call_inside_a_workflow_takes_tags_and_a_timeout() -> None:
    with World(app) as world:
        handle = app.start(calls_with, {"timeout": "5s"})
        assert handle.result() == "3 on visa"
        child = world.store.promises[f"{handle.id}:1"]
        told_after = child.timeout_at - int(child.tags["holdfast:grace"]) - child.created_at
        assert (child.tags["team"], told_after) == ("blue", 5000)
        assert app.start(calls_briefly).result() == [90]


def test_a_start_from_inside_a_workflow_says_what_to_call_there() -> None:
    with World(app):
        assert "hf.start, hf.call" in app.start(starts_from_inside).result()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"id": ""}, hf.errors.BadId),
        ({"tags": {"resonate:x": "y"}}, hf.errors.BadTags),
        ({"timeout": "soon"}, ValueError),
    ],
)
def test_an_option_that_cannot_be_used_is_refused_where_it_is_given(
    options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        checkout.with_options(**options)
