"""Mutants of task.restart: the claim, the generation, what goes and what stays."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_CONFORMANCE = "tests/conformance/test_restart.py -k memory"

RESTARTS = (
    Mutant(
        "a lock outlives the generation that held it",
        "locks that a generation leaves behind are released with it",
        "workflow",
        "return [ReleaseAction(LockRelease(name, ticket)) for ticket, name in self.tickets.items()]",
        "return []",
        "tests/workflow/test_generations.py -k locks",
    ),
    Mutant(
        "an entity stays in memory between two calls",
        "nothing of an idle entity is kept",
        "workflow",
        "return self._has_code and (not self._is_entity or self._progress.has_records)",
        "return not self._is_entity or self._progress.has_records",
        "tests/app/test_entities.py -k idle",
    ),
    Mutant(
        "the last generation still writes",
        "what was written for an earlier generation is refused",
        "engine",
        "if generation is not None and generation != (now_at := ...):\n    raise ClaimLost(...)",
        "if generation is not None and generation > (now_at := generation_of(promise_of(task, ws)).number):\n"
        "    raise ClaimLost(task_id)",
        _CONFORMANCE,
    ),
    Mutant(
        "a repeated restart begins one generation more",
        "a restart that is sent again is answered as the first was",
        "engine",
        "if _is_repeated(data, task, promise, now):\n    return Reply(200, PromiseReply(promise))",
        "if _is_repeated(data, task, promise, now) and task.version == 0:\n"
        "    return Reply(200, PromiseReply(promise))",
        _CONFORMANCE,
    ),
    Mutant(
        "the arguments of the first start are replaced",
        "the param stays that of the first start",
        "engine",
        "again = replace(promise, value=begun_with(...))",
        "again = replace(promise, param=data.param, value=begun_with(data.param, "
        "Generation(before.number + 1, data.read)))",
        _CONFORMANCE,
    ),
    Mutant(
        "a restart deletes what it called",
        "only records of the execution itself are deleted",
        "engine",
        "return record.id != root and ... and ws.task(record.id) is None",
        "return record.id != root and lies_within(record.id, root)",
        _CONFORMANCE,
    ),
    Mutant(
        "nobody is told of what was deleted",
        "a record that is pending is cancelled before it is deleted",
        "engine",
        'if record.state == "pending":\n'
        '    settle(record, "rejected_canceled", EXECUTION_OVER, now, None, ws, now)\ndelete(record_id, ws)',
        "delete(record_id, ws)",
        _CONFORMANCE,
    ),
    Mutant(
        "a message goes with the question that is still open",
        "what was read stays until its answer is settled",
        "engine",
        'if any(record.state == "pending" for record in found):\n    return ...',
        "if not found and not beside and number == 0:\n    return number - 1, now",
        _CONFORMANCE,
    ),
    Mutant(
        "a message goes as soon as it was read",
        "what was read stays for ten minutes",
        "engine",
        "if goes_at > now:\n    return ...",
        "if goes_at > now + limits.read_message_ms:\n    return number - 1, goes_at",
        _CONFORMANCE,
    ),
    Mutant(
        "the last published value is deleted",
        "the value that was published last stays",
        "engine",
        'ends = {name: count - 1 for name, count in streams.counts.items() if name.startswith("value.")}',
        'ends = {name: count for name, count in streams.counts.items() if name.startswith("value.")}',
        _CONFORMANCE,
    ),
    Mutant(
        "a claim preloads the first generation",
        "a claim preloads the records of its own generation",
        "engine",
        "branch = branch_of(promise)\nif branch is None or tags.JOB in promise.tags:\n    return ([], None)",
        "branch = promise.tags.get(tags.BRANCH)\nif branch is None or tags.JOB in promise.tags:\n"
        "    return ([], None)",
        _CONFORMANCE,
    ),
    Mutant(
        "a restart takes along what was not read",
        "messages that were not taken stay",
        "engine",
        "ends[MAILBOX] = read\nends = {name: end for name, end in ends.items() if ...}",
        "ends[MAILBOX] = streams.count(MAILBOX)\nends = {name: end for name, end in ends.items() if ...}",
        _CONFORMANCE,
    ),
    Mutant(
        "a restart is not fenced",
        "whoever holds the claim, and nobody else, begins the next generation",
        "engine",
        "task = held_task(data.id, data.version, ws, now, data.generation)\n"
        "if task.job is not None:\n    raise ...",
        "if task.job is not None:\n    raise ...",
        _CONFORMANCE,
    ),
)
