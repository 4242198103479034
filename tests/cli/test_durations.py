import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from holdfast.cli.durations import format_duration
from holdfast.protocol.durations import duration_ms


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("100ms", 100),
        ("45s", 45_000),
        ("1.5s", 1_500),
        ("1h30m", 5_400_000),
        ("2d", 172_800_000),
        ("1w1d1h1m1s1ms", 694_861_001),
        ("0s", 0),
        ("1h 30m", 5_400_000),
    ],
)
def test_durations_are_read(text: str, milliseconds: int) -> None:
    assert duration_ms(text) == milliseconds


@pytest.mark.parametrize(
    "text", ["", "5", "5x", "h", "1h -3m", "1m1h", "-1s", "1h30", "1e3s", "٣s", "99999999999999999s"]
)
def test_what_is_no_duration_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match="1h30m"):
        duration_ms(text)


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0ms"),
        (999, "999ms"),
        (1_234, "1.23s"),
        (60_000, "1m"),
        (5_400_000, "1h30m"),
        (90_061_000, "1d1h"),
        (-5, "-5ms"),
    ],
)
def test_durations_are_written_short(milliseconds: int, text: str) -> None:
    assert format_duration(milliseconds) == text


@settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(60_000, 10**14))
def test_what_is_written_can_be_read(milliseconds: int) -> None:
    assert abs(duration_ms(format_duration(milliseconds)) - milliseconds) <= milliseconds * 0.05
