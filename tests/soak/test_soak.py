"""The soak can be red: growth is told from noise. `make soak` is the real one."""

import os
import random
import socket

import pytest

from tests.soak.run import Sample, judge, look, show


def samples(growth_bytes_s: float = 0.0, descriptors_s: float = 0.0, sockets_s: float = 0.0) -> list[Sample]:
    chance = random.Random(1)
    return [
        Sample(
            float(second),
            int(100e6 + growth_bytes_s * second + chance.uniform(-1e6, 1e6)),
            int(30 + descriptors_s * second),
            int(20 + sockets_s * second),
            8,
        )
        for second in range(0, 1_800, 5)
    ]


def test_noise_is_no_growth() -> None:
    assert judge("server", samples(), 1_800) == []


@pytest.mark.parametrize("growth_bytes_s", [4_200, 10_000])
def test_memory_that_grows_by_more_than_one_in_a_hundred_in_five_minutes_is_found(
    growth_bytes_s: float,
) -> None:
    [complaint] = judge("server", samples(growth_bytes_s), 1_800)
    assert "memory grows" in complaint


def test_memory_that_grows_by_less_is_let_pass() -> None:
    assert judge("server", samples(growth_bytes_s=2_800), 1_800) == []


def test_files_that_stay_open_are_found() -> None:
    [complaint] = judge("server", samples(descriptors_s=0.01), 1_800)
    assert "descriptors grow" in complaint


def test_connections_that_stay_open_are_found() -> None:
    [complaint] = judge("server", samples(sockets_s=0.01), 1_800)
    assert "sockets grow" in complaint


def test_a_socket_is_counted_as_one() -> None:
    before = look(os.getpid(), 0.0)
    with socket.socket():
        after = look(os.getpid(), 1.0)
    assert (after.sockets, after.descriptors) == (before.sockets + 1, before.descriptors)


def test_what_is_shown_is_in_the_order_of_time(capsys: pytest.CaptureFixture[str]) -> None:
    show("server", samples(), 1_800)
    shown = [float(line.split()[1]) for line in capsys.readouterr().out.splitlines()]
    assert shown == sorted(shown)


def test_a_run_too_short_to_judge_is_red() -> None:
    assert "only" in judge("server", samples()[:5], 1_800)[0]
