"""Lengths of time as people write them."""

from datetime import timedelta
from typing import Any

import pytest

from holdfast.worker.durations import duration_s
from holdfast.worker.errors import BadDuration


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
