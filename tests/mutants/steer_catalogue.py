"""Faults in steering: deadlines, progress, tags that change, and how long what has ended is kept."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

STEER = (
    Mutant(
        "a deadline wakes nobody",
        "an execution is told at its deadline, also while it is suspended",
        "engine",
        "if not is_past:\n    ws.add_callback(asked.id, promise.id)",
        "if is_past:\n    ws.add_callback(asked.id, promise.id)",
        "tests/conformance/test_deadlines.py -k memory",
    ),
    Mutant(
        "a retry has no deadline",
        "an execution that begins again is told at its deadline again",
        "engine",
        "if tags.GRACE in promise.tags:\n    set_deadline(opened, ws, now)",
        "if tags.GRACE in promise.value:\n    set_deadline(opened, ws, now)",
        "tests/conformance/test_deadlines.py -k memory",
    ),
    Mutant(
        "what ended by its deadline is listed as cancelled",
        "an execution that cancels itself at its deadline has timed out",
        "engine",
        '"timed_out" if ended_by_deadline(promise) else _OUTCOMES.get(promise.state)',
        "_OUTCOMES.get(promise.state)",
        "tests/conformance/test_deadlines.py -k memory",
    ),
    Mutant(
        "what is made again has what was owed to the one before",
        "a promise that is deleted and made again in one commit is awaited by whoever asked for it then",
        "engine",
        "self._take_back_obligations(promise_id)",
        "self.discharged.get(promise_id)",
        "tests/conformance/test_deadlines.py -k memory",
    ),
    Mutant(
        "progress is told by whoever asks",
        "only a heartbeat of whoever holds the task tells of its progress",
        "engine",
        "task is not None and task.version == ref.version and _is_held(task, data.pid, now)",
        "task is not None and _is_held(task, data.pid, now)",
        "tests/conformance/test_reported_progress.py -k memory",
    ),
    Mutant(
        "a step that is recorded still shows its progress",
        "what is recorded has no progress any more",
        "engine",
        "kept = [each for each in read_reported(task.progress) if each.step != step]",
        "kept = [each for each in read_reported(task.progress)]",
        "tests/conformance/test_reported_progress.py -k memory",
    ),
    Mutant(
        "the next attempt begins from nothing",
        "the next attempt finds the progress of the one before",
        "workflow",
        "self.reported = {told.step: told for told in task.progress or ()}",
        "self.reported = {told.step: told for told in ()}",
        "tests/workflow/test_progress.py",
    ),
    Mutant(
        "an attempt that fails takes its last report with it",
        "the next attempt finds the progress of the one before",
        "steps",
        "outcome.error is None or isinstance(outcome.error, StepCalledOff)",
        "outcome.error is None or isinstance(outcome.error, Exception)",
        "tests/workflow/test_progress.py",
    ),
    Mutant(
        "a tag that is removed stays",
        "execution.tag removes those that are null",
        "engine",
        "data.tags.get(name, text) is not None",
        "data.tags.get(name, text) is not data",
        "tests/conformance/test_tagging.py -k memory",
    ),
    Mutant(
        "the code is not told why it is cancelled",
        "Cancelled has the reason",
        "workflow",
        "self._scheduler.cancel(TimedOut(out_of_time(self._root)) if self.is_out_of_time else None)",
        "self._scheduler.cancel(None)",
        "tests/workflow/test_deadlines.py",
    ),
)
