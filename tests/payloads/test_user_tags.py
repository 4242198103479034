"""Tags of executions and promises: given by the workflow, its caller and its code, found by search."""

from typing import Any

import pytest

import holdfast as hf
from holdfast.protocol.replies import PromisesReply
from holdfast.protocol.requests import PromiseSearch
from holdfast.testing import World
from tests.requests import ask

app = hf.App("memory:")


@app.workflow(tags={"team": "blue", "kind": "child"})
async def child() -> int:
    return 1


@app.workflow(tags={"team": "blue", "kind": "order"})
async def order() -> int:
    called = await hf.call(child)
    await hf.promise(int, question="why")
    return called


@app.workflow
async def tagged(tags: dict[str, str]) -> dict[str, str]:
    return tags


def found(world: World, **tags: str) -> list[str]:
    [reply] = world.run(world.node.request([ask(PromiseSearch(tags=tags))]))
    assert isinstance(reply.data, PromisesReply)
    return [promise.id for promise in reply.data.promises]


def test_executions_are_found_by_the_tags_of_their_workflow_and_of_their_start() -> None:
    with World(app) as world:
        app.start(order, id="a", tags={"customer": "17", "kind": "rush"})
        app.start(order, id="b")
        app.start("child", id="c", tags={"customer": "17"})
        world.elapse("1s")
        assert found(world, team="blue") == ["a", "a:1", "b", "b:1"]
        assert found(world, kind="order") == ["b"], "what is given at the start wins"
        assert found(world, customer="17") == ["a", "c"], "a call has the tags of its own workflow"
        assert found(world, question="why") == ["a:2", "b:2"]


def test_a_parameter_of_that_name_is_the_workflows_own() -> None:
    with World(app):
        start: Any = app.start
        assert start(tagged, tags={"mine": "too"}).result() == {"mine": "too"}


@pytest.mark.parametrize(
    ("tags", "why"),
    [
        ({"resonate:target": "poll://any@other"}, "'resonate:target' cannot be used"),
        ({"holdfast:priority": "7"}, "'holdfast:priority' cannot be used"),
        ({"": "empty"}, "cannot be used"),
        ({"number": 7}, "its name and its value must be strings"),
        ({"zero": "\0"}, "NUL"),
        ({"long": "x" * 5_000}, "5000 bytes"),
        ({str(n): "" for n in range(49)}, "49 tags"),
    ],
)
def test_tags_that_cannot_be_used_are_refused_before_anything_is_written(tags: Any, why: str) -> None:
    with World(app) as world:
        with pytest.raises(hf.errors.BadTags, match=why):
            app.start(order, id="a", tags=tags)
        with pytest.raises(hf.errors.BadTags, match=why):
            app.workflow(tags=tags)(lambda: None)
        assert world.store.promises == {}


def test_a_bad_tag_of_a_promise_is_an_error_at_its_line() -> None:
    other = hf.App("memory:")

    @other.workflow
    async def flow() -> str:
        try:
            hf.promise(int, **{"resonate:target": "poll://any@other"})
        except hf.errors.BadTags as error:
            return error.what
        return ""

    with World(other):
        assert "'resonate:target'" in other.start(flow).result()
