"""docs/architecture.md, "Three journeys": the files that a request, a step and a background task really pass.

Each journey is made once to warm up and once while every call of a function of ours is noted. A file that is
passed must stand in the document, and one that stands there must be passed.
"""

import asyncio
import re
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import holdfast as hf
from holdfast.server import Settings, running
from tests.server.http import create, envelope, post

SOURCE = Path(hf.__file__).parent
PAGE = SOURCE.parent.parent / "docs" / "architecture.md"

# At most so many files; and so many that are not on the way of the first journey, which the others make too.
MOST = {"An HTTP create": (27, 0), "A step": (53, 34), "A background task": (63, 45)}
TRIES = 5


class Journey:
    """Notes the files whose functions run while it is on."""

    def __init__(self) -> None:
        self.is_on = False
        self.files: set[str] = set()

    def note(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if self.is_on and event == "call" and code.co_name != "<module>":
            path = Path(code.co_filename)
            if path.is_relative_to(SOURCE):
                self.files.add(path.relative_to(SOURCE).as_posix())


async def http_create(journey: Journey) -> None:
    async with running(Settings(port=0, store="memory:")) as server:
        for name in ("first", "second"):
            journey.is_on = name == "second"
            answer = await post(server.url, envelope("promise.create", create(name)))
            journey.is_on = False
            assert answer.status == 200


def double(number: int) -> int:
    return 2 * number


async def one_step(journey: Journey) -> None:
    app = hf.App("memory:")

    @app.workflow
    async def flow() -> int:
        await hf.run(double, 1)
        journey.is_on = True
        found = await hf.run(double, 2)
        journey.is_on = False
        return found

    async with app:
        assert await app.start(flow) == 4


async def background_task(journey: Journey) -> None:
    app = hf.App("memory:")
    task = app.task(double)
    async with app:
        for number in (1, 2):
            journey.is_on = number == 2
            sent = await task.send_async(number)
            result = await sent
            journey.is_on = False
            assert result.ok_value == 2 * number


JOURNEYS: dict[str, Callable[[Journey], Awaitable[None]]] = {
    "An HTTP create": http_create,
    "A step": one_step,
    "A background task": background_task,
}


def make(name: str) -> set[str]:
    journey = Journey()
    before = sys.getprofile(), threading.getprofile()
    threading.setprofile(journey.note)
    sys.setprofile(journey.note)
    try:
        asyncio.run(JOURNEYS[name](journey))  # type: ignore[arg-type]
    finally:
        sys.setprofile(before[0])
        threading.setprofile(before[1])
    return journey.files


def told(name: str) -> list[str]:
    """The files of a journey, in the order in which the document walks them."""
    section = PAGE.read_text("utf-8").split(f"\n### {name}\n")[1].split("\n#")[0]
    numbered = [line for line in section.splitlines() if re.match(r"\d+\. ", line)]
    return [path for line in numbered for path in re.findall(r"`([a-z_]+/[a-z_/]+\.py|app\.py)`", line)]


@pytest.mark.parametrize("name", JOURNEYS)
def test_a_journey_passes_the_files_that_the_document_tells(name: str) -> None:
    """It is made a few times: what a timer does meanwhile is on one of them by chance."""
    files = told(name)
    assert len(files) == len(set(files)), "each file stands once"
    always = ever = make(name)
    for _ in range(TRIES):
        made = make(name)
        always, ever = always & made, ever | made
        if not always - {*files}:
            break
    assert sorted(always - {*files}) == [], "passed and not told"
    assert sorted({*files} - ever) == [], "told and not passed"


@pytest.mark.parametrize("name", JOURNEYS)
def test_a_journey_is_short(name: str) -> None:
    most, most_new = MOST[name]
    files = {*told(name)}
    assert len(files) <= most
    assert len(files - {*told("An HTTP create")}) <= most_new
