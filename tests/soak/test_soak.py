"""The soak can be red: growth is told from noise. `make soak` is the real one."""

import random

from tests.soak.run import Sample, judge


def samples(growth_bytes_s: float = 0.0, descriptors_s: float = 0.0) -> list[Sample]:
    chance = random.Random(1)
    return [
        Sample(
            float(second),
            int(100e6 + growth_bytes_s * second + chance.uniform(-1e6, 1e6)),
            int(30 + descriptors_s * second),
            8,
        )
        for second in range(0, 1_800, 5)
    ]


def test_noise_is_no_growth() -> None:
    assert judge("server", samples(), 1_800) == []


def test_memory_that_grows_is_found() -> None:
    [complaint] = judge("server", samples(growth_bytes_s=10_000), 1_800)
    assert "memory grows" in complaint


def test_files_that_stay_open_are_found() -> None:
    [complaint] = judge("server", samples(descriptors_s=0.01), 1_800)
    assert "descriptors grow" in complaint


def test_a_run_too_short_to_judge_is_red() -> None:
    assert "only" in judge("server", samples()[:5], 1_800)[0]
