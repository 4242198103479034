"""`hf.tag`: tags that change while an execution runs."""

import pytest

import holdfast as hf
from holdfast.testing import World, crash_everywhere

app = hf.App("memory:")


@app.workflow(tags={"stage": "new", "owner": "ada"})
async def parcel(waits: str = "1d") -> str:
    await hf.tag(stage="packed")
    await hf.sleep(waits)
    await hf.tag(stage="sent", owner=None)
    return "done"


def find(**tags: str) -> list[str]:
    return [each.id for each in app.find(tags=tags)]


def test_it_is_found_by_the_tags_that_it_has_now() -> None:
    with World(app) as world:
        handle = parcel.with_options(id="p1").start()
        world.elapse("1h")
        assert find(stage="packed") == ["p1"]
        assert find(stage="new") == []
        assert handle.result() == "done"
        assert find(stage="sent") == ["p1"]
        assert handle.info().tags == {"stage": "sent"}


def test_a_replay_does_not_set_them_again() -> None:
    with World(app) as world:
        handle = parcel.with_options(id="p1").start()
        world.elapse("1h")
        world.kill()
        assert handle.result() == "done"
        assert handle.info().tags == {"stage": "sent"}


def test_a_worker_may_die_at_every_write() -> None:
    crash_everywhere(parcel, app=app)


@pytest.mark.parametrize("tags", [{"holdfast:queue": "x"}, {"stage": 5}, {"stage": "x" * 5_000}])
def test_what_is_no_tag_is_refused(tags: dict[str, str]) -> None:
    @app.workflow(name=f"wrong {tags}"[:40])
    async def wrong() -> None:
        await hf.tag(**tags)

    with World(app), pytest.raises(hf.errors.BadTags):
        wrong.start().result()


def test_outside_of_a_workflow_it_is_refused() -> None:
    with pytest.raises(hf.HoldfastError, match="outside of the code of a workflow"):
        hf.tag(stage="packed")
