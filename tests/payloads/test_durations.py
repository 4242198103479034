"""Durations as people write them."""

from datetime import timedelta
from typing import Any

import pytest

import holdfast as hf
from holdfast.payloads.durations import duration_s, pause_s
from holdfast.payloads.errors import BadDuration
from holdfast.testing import World, crash_everywhere


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (90, 90.0),
        (1.5, 1.5),
        (0, 0.0),
        ("90s", 90.0),
        ("1h30m", 5400.0),
        ("2d", 172800.0),
        ("1w", 604800.0),
        ("250ms", 0.25),
        ("1m 30s", 90.0),
        (" 1.5h ", 5400.0),
        ("1d12h30m5s250ms", 131405.25),
        (timedelta(hours=1, milliseconds=5), 3600.005),
    ],
)
def test_a_length_of_time_is_read(written: Any, seconds: float) -> None:
    assert duration_s(written) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "written",
    ["", " ", "90", "soon", "1h -3m", "-1s", "1s1h", "1m1m", "1h30", "1e3s", "1.s", "1 month"],
)
def test_a_text_that_is_not_a_length_of_time_is_refused_by_name(written: str) -> None:
    with pytest.raises(BadDuration) as caught:
        duration_s(written)
    assert repr(written) in str(caught.value)
    assert "HF5010" in str(caught.value)


@pytest.mark.parametrize(
    "written", [-1, float("nan"), float("inf"), 10**400, True, None, b"1s", timedelta(seconds=-1)]
)
def test_what_cannot_be_waited_for_is_refused(written: Any) -> None:
    with pytest.raises(BadDuration):
        duration_s(written)


@pytest.mark.parametrize(
    ("written", "seconds"), [(-3, 0.0), (timedelta(days=-1), 0.0), (0, 0.0), ("2s", 2.0), (0.5, 0.5)]
)
def test_a_pause_whose_end_has_passed_takes_no_time(written: Any, seconds: float) -> None:
    assert pause_s(written) == seconds


def test_a_sleep_of_a_negative_duration_returns_at_once_and_is_recorded() -> None:
    app = hf.App()

    @app.workflow
    async def late(by: float) -> float:
        before = await hf.now()
        await hf.sleep(-by)
        await hf.sleep(timedelta(seconds=-by))
        return ((await hf.now()) - before).total_seconds()

    with World(app) as world:
        assert app.start(late, 3600.0, id="late").result() == 0
        labels = [(each.param.headers or {}).get("holdfast:op") for each in world.journal("late")]
        assert labels == ["note now", "sleep", "sleep", "note now"]

    @app.workflow
    async def sleeps(by: float) -> str:  # whose result does not depend on how long crashes take
        await hf.sleep(-by)
        return "awake"

    assert crash_everywhere(sleeps, 3600.0, app=app).result == "awake"


def test_a_pause_must_be_a_length_of_time() -> None:
    for written in (float("nan"), float("inf"), True, "-1s"):
        with pytest.raises(BadDuration):
            pause_s(written)
