"""The back ends do what the oracle does; and the runner would notice if they did not.

`HOLDFAST_SEED` chooses the seed, `HOLDFAST_MODEL_OPS` the number of operations, `HOLDFAST_MODEL_SNAP_EVERY`
how many steps lie between two comparisons of snapshots (replies are compared at every step).
"""

from __future__ import annotations

import collections.abc
from contextlib import contextmanager

import pytest

from holdfast.protocol import limits
from holdfast.store.granted_records import GrantedRecords
from tests.backends import DirectBackend
from tests.counts import FULL, count_of
from tests.model.differential import Backend, Difference, OracleBackend, open_named, run, shrink
from tests.model.generator import Generator
from tests.model.machine import Machine, Task
from tests.model.mutants import MUTANTS
from tests.model.oracle import Oracle
from tests.seeds import seed_for_test

POSTGRES_PARTS = 3
BACKENDS = ("memory", "sqlite")
OPERATIONS = count_of("HOLDFAST_MODEL_OPS", quick=8_000, full=24_000)
PARTS = 2 if OPERATIONS < 24_000 else 6
BOUNDED_OPERATIONS = count_of("HOLDFAST_MODEL_BOUNDED_OPS", quick=1_500, full=8_000)
POSTGRES_OPERATIONS = count_of("HOLDFAST_MODEL_POSTGRES_OPS", quick=1_500, full=30_000)
MUTANTS_TRIED = MUTANTS if FULL else MUTANTS[::8]
SNAP_EVERY = count_of("HOLDFAST_MODEL_SNAP_EVERY", quick=10, full=10)


@contextmanager
def opened(*names: str) -> collections.abc.Generator[dict[str, Backend]]:
    backends = {name: open_named(name) for name in names}
    try:
        yield backends
    finally:
        for backend in backends.values():
            if isinstance(backend, DirectBackend):
                backend.close()


@pytest.mark.sized
@pytest.mark.parametrize("part", range(PARTS))
def test_every_back_end_does_what_the_oracle_does(part: int) -> None:
    with opened(*BACKENDS) as backends:
        run(
            count=OPERATIONS // PARTS,
            seed=seed_for_test() + part,
            backends=backends,
            snap_every=SNAP_EVERY,
        )


@pytest.mark.sized
@pytest.mark.parametrize("part", range(POSTGRES_PARTS))
def test_postgresql_does_what_the_oracle_does(part: int) -> None:
    with opened("postgres") as backends:
        # Too short for the quotas, which the runs above meet.
        run(
            count=POSTGRES_OPERATIONS // POSTGRES_PARTS,
            seed=seed_for_test() + part,
            backends=backends,
            snap_every=SNAP_EVERY,
            enforce_quotas=False,
        )


@pytest.mark.sized
@pytest.mark.parametrize("chars", [300, 700, 2_000])
def test_every_back_end_puts_as_much_into_an_answer_as_the_oracle(
    chars: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Oracle, "answer_chars", chars)
    monkeypatch.setattr(limits, "claim_bytes_max", chars)
    monkeypatch.setattr(limits, "search_bytes_max", chars)
    with opened(*BACKENDS) as backends:
        run(
            count=BOUNDED_OPERATIONS,
            seed=seed_for_test() + chars,
            backends=backends,
            snap_every=SNAP_EVERY,
            enforce_quotas=False,
        )


@pytest.mark.sized
def test_every_back_end_keeps_the_bounds_of_streams_as_the_oracle_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bounds = {
        "stream_elements_max": ("ELEMENTS_MAX", 5),
        "streams_max": ("STREAMS_MAX", 2),
        "unread_messages_max": ("UNREAD_MAX", 3),
        "unread_bytes_max": ("UNREAD_CHARS_MAX", 600),
        "open_answers_max": ("OPEN_ANSWERS_MAX", 1),
        "stream_page_bytes_max": ("PAGE_CHARS", 500),
        "stream_skips_max": ("SKIPS_MAX", 1),
    }
    for limit, (name, most) in bounds.items():
        monkeypatch.setattr(limits, limit, most)
        monkeypatch.setattr(Oracle, name, most)
    monkeypatch.setattr(Oracle, "EVENTS_CHARS", 500)
    with opened(*BACKENDS) as backends:
        run(
            count=BOUNDED_OPERATIONS,
            seed=seed_for_test() + 500,
            backends=backends,
            snap_every=SNAP_EVERY,
            enforce_quotas=False,
        )


@pytest.mark.sized
def test_every_back_end_keeps_the_bounds_of_events_and_locks_as_the_oracle_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bounds = {
        "stream_page_bytes_max": (("PAGE_CHARS", "EVENTS_CHARS"), 900),
        "event_look_back_bytes_max": (("LOOK_BACK_CHARS",), 900),
        "event_wake_bytes_max": (("WAKE_CHARS",), 1),
        "lock_bytes_max": (("RECORD_CHARS",), 100),
    }
    for limit, (names, most) in bounds.items():
        monkeypatch.setattr(limits, limit, most)
        for name in names:
            monkeypatch.setattr(Oracle, name, most)
    with opened(*BACKENDS) as backends:
        run(
            count=BOUNDED_OPERATIONS,
            seed=seed_for_test() + 900,
            backends=backends,
            snap_every=SNAP_EVERY,
            enforce_quotas=False,
        )


@pytest.mark.sized
@pytest.mark.parametrize("mutant", MUTANTS_TRIED, ids=lambda mutant: mutant.__name__)
def test_a_planted_fault_is_found_and_shrunk(mutant: type[Oracle]) -> None:
    with pytest.raises(Difference, match="the fewest steps") as found:
        run(count=30_000, seed=11, backends={"mutant": OracleBackend(mutant())}, invariants=False)
    assert "--seed 11" in str(found.value)


@pytest.mark.parametrize("fault", ["written", "_drop"])
def test_a_record_that_is_kept_though_it_was_written_is_found(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stale row in memory: what the SQLite store keeps of granted tasks."""

    def nothing(self: GrantedRecords, what: object) -> None:
        """It stays as it was."""

    monkeypatch.setattr(GrantedRecords, fault, nothing)
    with opened("sqlite") as backends, pytest.raises(Difference):
        run(count=30_000, seed=15, backends=backends, snap_every=SNAP_EVERY, invariants=False)


def test_a_fault_that_everybody_shares_breaks_an_invariant(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(self: Machine, task: Task, awaited: str, now: int) -> None:
        """Nobody is ever woken."""

    monkeypatch.setattr(Machine, "resume", forget)
    with pytest.raises(Difference, match=r"broken invariants\n(?s:.*)  69 task"):
        run(count=30_000, seed=12, backends={})


@pytest.mark.slow
def test_a_run_that_never_suspends_is_red(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Generator, "task_suspend", Generator.task_get)
    with pytest.raises(Difference, match="suspend 200: 0 seen"):
        run(count=10_000, seed=13, backends={})


def test_the_same_seed_gives_the_same_run() -> None:
    first, second = (run(count=2_000, seed=14, backends={}, enforce_quotas=False).seen for _ in range(2))
    assert first == second


def test_steps_that_show_no_difference_are_not_shrunk() -> None:
    assert shrink(OracleBackend(Oracle()), []) is None
