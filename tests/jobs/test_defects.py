"""Defects that others of its kind have, each shown not to be ours, on real processes.

What counts is what a user sees: results, attempts, and a ledger outside that every run writes to.
"""

import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import holdfast as hf
from holdfast.jobs.info import TaskStatus
from tests.jobs import yard
from tests.jobs.yard import Ledger, Line, Worker
from tests.processes import Server, eventually, holdfast

within_s = 60.0


class Yard:
    """A server, a ledger, the workers of this test; the app of tests/jobs/yard.py sends from here."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.path = folder / "ledger.db"
        self.ledger = Ledger(self.path)
        self.workers: list[Worker] = []

    def worker(self, *flags: str, lease: str = "1500ms", **extra: str) -> Worker:
        worker = Worker(self.url, self.path, *flags, lease=lease, **extra)
        self.workers.append(worker)
        return worker

    def wait_for(self, what: str, task: Any, attempt: int = 1) -> Line:
        def find() -> list[Line]:
            return [line for line in self.ledger.lines(what, task.id) if line.attempt >= attempt]

        found: list[Line] = eventually(find, within_s)
        return found[0]


@pytest.fixture
def here(tmp_path: Path) -> Generator[Yard]:
    with Server(tmp_path) as server, sending_to(server.url):
        found = Yard(server.url, tmp_path)
        try:
            yield found
        finally:
            for worker in found.workers:
                worker.kill()


@contextmanager
def sending_to(url: str) -> Generator[None]:
    yard.app.settings = replace(yard.app.settings, url=url)
    with yard.app:
        yield


def send(task: Any, *args: Any) -> Any:
    return task.send(*args)


def attempts_of(handle: Any) -> list[tuple[int, str | None]]:
    return sorted((each.number, each.error_code) for each in handle.info().attempts)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # the second: it went while it was looked at
        return False


@pytest.mark.slow
def test_d1_a_frozen_worker_that_wakes_late_does_not_store_its_old_result(here: Yard) -> None:
    first = here.worker("--queues", "quick")
    handle = send(yard.work, 2.0)
    assert here.wait_for("begin", handle).pid == first.pid
    first.signal(signal.SIGSTOP)
    second = here.worker("--queues", "quick")
    assert here.wait_for("begin", handle, attempt=2).pid == second.pid
    first.signal(signal.SIGCONT)
    result = handle.get(timeout=within_s)
    assert result.ok_value == second.pid
    assert attempts_of(handle) == [(1, "WORKER_CRASHED"), (2, None)]
    ended = {line.pid for line in here.ledger.lines("end", handle.id)}
    assert second.pid in ended
    assert handle.info().claimed_by.startswith(os.uname().nodename)


def test_d2_a_task_that_finishes_during_the_drain_keeps_its_result(here: Yard) -> None:
    worker = here.worker("--queues", "quick", "--drain", "30s", lease="1s")
    handle = send(yard.fragile, 4.0)
    waiting = [send(yard.work, 0.0) for _ in range(3)]
    here.wait_for("begin", handle)
    worker.signal(signal.SIGTERM)
    assert worker.finish() == 0
    result = handle.get(timeout=0)
    assert result.ok_value == worker.pid
    assert attempts_of(handle) == [(1, None)]
    for other in waiting:
        assert len(other.info().attempts) <= 1


def test_d3_a_killed_child_harms_no_other_and_its_death_is_told_at_once(here: Yard) -> None:
    worker = here.worker("--queues", "heavy", "--processes", "2", lease="600s")
    sibling, victim = send(yard.crunch_once, 2.0), send(yard.crunch_once, 600.0)
    sibling_pid = here.wait_for("begin", sibling).pid
    victim_pid = here.wait_for("begin", victim).pid
    assert len({worker.pid, sibling_pid, victim_pid}) == 3
    os.kill(victim_pid, signal.SIGKILL)
    error = victim.get(timeout=within_s).err_value  # not by the lease of ten minutes
    assert error.error_code == "WORKER_CRASHED"
    assert sibling.get(timeout=within_s).ok_value == sibling_pid
    assert attempts_of(sibling) == [(1, None)]
    worker.signal(signal.SIGTERM)
    assert worker.finish() == 0
    assert not is_alive(sibling_pid)


def test_d3_a_killed_child_is_followed_by_another_attempt_if_the_policy_says_so(here: Yard) -> None:
    here.worker("--queues", "heavy", "--processes", "2", lease="600s")
    handle = send(yard.crunch, 0.5)
    first = here.wait_for("begin", handle).pid
    os.kill(first, signal.SIGKILL)
    assert handle.get(timeout=within_s).ok_value != first
    assert attempts_of(handle) == [(1, "WORKER_CRASHED"), (2, None)]


def test_d4_what_waits_in_a_paused_queue_runs_once_after_it_is_resumed(here: Yard) -> None:
    queue = yard.app.queue("quick")
    queue.pause()
    handle = send(yard.work, 0.0)
    here.worker("--queues", "quick,heavy")
    assert send(yard.crunch_once, 0.0).get(timeout=within_s).is_ok  # the worker is at work
    assert handle.info().status is TaskStatus.PENDING
    assert here.ledger.lines(task=handle.id) == []
    queue.resume()
    assert handle.get(timeout=within_s).is_ok
    assert len(here.ledger.lines("begin", handle.id)) == 1
    assert attempts_of(handle) == [(1, None)]


@pytest.mark.slow
def test_d4_the_task_of_a_halted_workflow_runs_once_and_its_result_is_kept(here: Yard) -> None:
    queue = yard.app.queue("quick")
    queue.pause()
    worker = here.worker("--queues", "quick")
    handle = yard.app.start(yard.delegate, 0.0)
    task = yard.app.task_handle(f"{handle.id}:1")
    eventually(lambda: is_there(task), within_s)
    assert holdfast("tasks", "halt", handle.id, "-S", here.url).code == 0
    queue.resume()
    assert task.get(timeout=within_s).ok_value == worker.pid
    with pytest.raises(TimeoutError):
        handle.result("500ms")
    assert holdfast("tasks", "continue", handle.id, "-S", here.url).code == 0
    assert handle.result(within_s) == worker.pid
    assert len(here.ledger.lines("begin", task.id)) == 1
    assert attempts_of(task) == [(1, None)]


def is_there(task: Any) -> bool:
    try:
        task.info()
    except hf.errors.TaskNotFound:
        return False
    return True


def test_d5_a_cancelled_workflow_stays_cancelled_when_its_running_task_finishes(here: Yard) -> None:
    here.worker("--queues", "quick")
    handle = yard.app.start(yard.delegate, 1.5)
    task = yard.app.task_handle(f"{handle.id}:1")
    here.wait_for("begin", task)
    handle.cancel()
    with pytest.raises(hf.errors.ExecutionCancelled):
        handle.result(within_s)
    assert task.info().status is TaskStatus.RUNNING
    assert task.get(timeout=within_s).is_ok
    assert attempts_of(task) == [(1, None)]
    with pytest.raises(hf.errors.ExecutionCancelled):
        handle.result(within_s)


def test_d5_the_queued_task_of_a_cancelled_workflow_never_runs(here: Yard) -> None:
    queue = yard.app.queue("quick")
    queue.pause()
    here.worker("--queues", "quick")
    handle = yard.app.start(yard.delegate, 0.0)
    task = yard.app.task_handle(f"{handle.id}:1")
    eventually(lambda: is_there(task), within_s)
    handle.cancel()
    with pytest.raises(hf.errors.ExecutionCancelled):
        handle.result(within_s)
    queue.resume()
    assert send(yard.work, 0.0).get(timeout=within_s).is_ok  # it is at work again
    assert task.info().status is TaskStatus.CANCELLED
    assert here.ledger.lines(task=task.id) == []


def test_d5_a_cancelled_task_stays_cancelled_when_its_run_finishes(here: Yard) -> None:
    here.worker("--queues", "quick")
    handle = send(yard.work, 1.0)  # it does not look at its signal
    here.wait_for("begin", handle)
    with pytest.raises(hf.errors.CannotCancel):
        handle.cancel()
    handle.cancel(force=True)
    assert handle.get(timeout=within_s).err_value.error_code == "TASK_CANCELLED"
    here.wait_for("end", handle)
    assert send(yard.work, 0.0).get(timeout=within_s).is_ok
    assert handle.info().status is TaskStatus.CANCELLED


def test_d5_a_cancelled_child_is_killed(here: Yard) -> None:
    here.worker("--queues", "heavy", lease="600s")
    handle = send(yard.crunch, 60.0)
    child = here.wait_for("begin", handle).pid
    handle.cancel(force=True)
    eventually(lambda: not is_alive(child))
    assert handle.get(timeout=within_s).err_value.error_code == "TASK_CANCELLED"


def test_a_forced_cancel_by_another_process_on_the_same_file_stops_what_runs_at_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shared.db"
    yard_here = Yard(url, tmp_path)
    with sending_to(url):
        worker = yard_here.worker("--queues", "quick", lease="1200s")
        try:
            handle = send(yard.wait, 300.0)
            yard_here.wait_for("begin", handle)
            handle.cancel(force=True)
            yard_here.wait_for("cancelled", handle)  # not by a heartbeat
        finally:
            worker.kill()


def test_d6_d9_a_scheduled_task_keeps_its_retry_policy_and_its_instants_do_not_drift(here: Yard) -> None:
    here.worker("--queues", "planned", YARD_PLANS="1")

    def done() -> list[str]:
        again = {line.task for line in here.ledger.lines("begin") if line.attempt == 2}
        return sorted(again) if len(again) >= 3 else []

    handles = [yard.app.task_handle(task_id) for task_id in eventually(done, within_s)]
    for handle in handles:
        assert handle.get(timeout=within_s).is_ok
        assert attempts_of(handle) == [(1, "UNHANDLED_EXCEPTION"), (2, None)]
    instants = sorted(int(handle.id.rpartition("-")[2]) for handle in handles)
    assert all(instant % 1_000 == 0 for instant in instants), instants
    assert len(set(instants)) == len(instants)


@pytest.mark.slow
def test_d7_a_retried_task_has_a_whole_lease_before_it_and_is_kept_by_its_own_beats(here: Yard) -> None:
    first = here.worker("--queues", "quick", lease="1s")
    handle = send(yard.work, 3.0)
    here.wait_for("begin", handle)
    first.kill()
    second = here.worker("--queues", "quick", lease="1s")
    assert handle.get(timeout=within_s).ok_value == second.pid
    assert attempts_of(handle) == [(1, "WORKER_CRASHED"), (2, None)]
    assert len(here.ledger.lines("begin", handle.id)) == 2


@pytest.mark.slow
def test_a_crash_is_tried_again_whatever_retry_for_lists(here: Yard) -> None:
    first = here.worker("--queues", "quick", lease="1s")
    handle = send(yard.mail, 1.0)
    here.wait_for("begin", handle)
    first.kill()
    second = here.worker("--queues", "quick", lease="1s")
    assert handle.get(timeout=within_s).ok_value == second.pid
    assert attempts_of(handle) == [(1, "WORKER_CRASHED"), (2, None)]


def test_d8_a_timeout_of_nothing_looks_and_returns(here: Yard) -> None:
    handle = send(yard.work, 0.0)
    assert handle.get(timeout=0).err_value.error_code == "WAIT_TIMEOUT"


def test_d10_a_child_past_its_time_limit_is_killed(here: Yard) -> None:
    here.worker("--queues", "heavy", lease="600s")
    handle = send(yard.crunch_limited, 60.0)
    child = here.wait_for("begin", handle).pid
    assert handle.get(timeout=within_s).err_value.error_code == "TIME_LIMIT_EXCEEDED"
    eventually(lambda: not is_alive(child))


def test_d10_an_exception_in_a_child_is_mapped_by_its_class(here: Yard) -> None:
    here.worker("--queues", "heavy")
    error = send(yard.oops).get(timeout=within_s).err_value
    assert (error.error_code, error.message) == ("OOPS", "from a child")


def test_a_child_knows_where_it_is(here: Yard) -> None:
    here.worker("--queues", "heavy")
    handle = send(yard.whoami)
    assert handle.get(timeout=within_s).ok_value == (handle.id, 1, 1, False)


@pytest.mark.slow
def test_d11_no_child_outlives_a_worker_that_stops_or_is_killed(here: Yard) -> None:
    for ending in (signal.SIGTERM, signal.SIGKILL):
        worker = here.worker("--queues", "heavy", "--processes", "2", "--drain", "100ms")
        handles = [send(yard.crunch, 60.0) for _ in range(2)]
        children = [here.wait_for("begin", handle).pid for handle in handles]
        os.kill(children[0], signal.SIGKILL)
        worker.signal(ending)
        worker.finish()
        for child in children:
            eventually(lambda child=child: not is_alive(child))  # type: ignore[misc]
        for handle in handles:
            handle.cancel(force=True)
