"""Mutants of mending: retries, forks, starts under a taken id, cancellations; and of what a fence refuses."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_CONFORMANCE = "tests/conformance/test_mending.py -k memory"
_CRASHES = "tests/conformance/test_crashes.py -k memory"

MENDING = (
    Mutant(
        "a retry keeps the record of what failed",
        "what failed is taken out of the record",
        "engine",
        'if record.is_step and record.promise.state == "resolved":\n    ...\nelse:\n    ...',
        "plan.unplaced.append(record.promise)",
        _CONFORMANCE,
    ),
    Mutant(
        "a retry takes back what the code had gone on from",
        "a failure that the code has seen before it failed stays",
        "engine",
        "if record.place < point.place:\n    return",
        "if record.place < 0:\n    return",
        _CONFORMANCE,
    ),
    Mutant(
        "a retried execution keeps its version",
        "whoever held it before a retry holds it no more",
        "engine",
        'fresh = Task(task.id, "pending", task.version + 1, ..., **...)',
        'fresh = Task(task.id, "pending", task.version, ..., **...)',
        _CONFORMANCE,
    ),
    Mutant(
        "one that cleaned up after its failure is retried",
        "what the code did after it had failed cannot be taken back",
        "engine",
        "if not record.is_note:\n    raise WentOn(...)",
        'if record.is_step and record.promise.state == "pending":\n    raise WentOn(execution_id, "")',
        _CONFORMANCE,
    ),
    Mutant(
        "a call that failed is asked for anew instead of retried",
        "a call that failed is retried itself",
        "engine",
        "if task is None:\n    plan.forgotten.append(promise.id)\n    return",
        "if task is None or task.job is None:\n    plan.forgotten.append(promise.id)\n    return",
        _CONFORMANCE,
    ),
    Mutant(
        "a called execution is retried by itself",
        "what another execution called is nobody's to retry",
        "engine",
        'if caller != promise.id and not label_of(promise).startswith("start "):\n    raise HasCaller(...)',
        "if not caller:\n    raise HasCaller(promise.id, caller)",
        _CONFORMANCE,
    ),
    Mutant(
        "an execution is retried while its records are being deleted",
        "a tree of which a part is gone is not retried",
        "engine",
        "if is_being_deleted(promise) or (owner is not None and is_being_deleted(owner)):\n    raise ...",
        "if is_being_deleted(promise) and owner is None:\n    raise BeingDeleted(promise.id)",
        "tests/node/test_retention.py",
    ),
    Mutant(
        "one whose lock was let go is retried as if it held it",
        "a lock that it held was released when it ended",
        "engine",
        "if (name := unreleased_lock(kept)) is not None:\n    raise WentOn(...)",
        "if (name := unreleased_lock(kept)) is not None and depth:\n    raise WentOn(promise.id, name)",
        _CONFORMANCE,
    ),
    Mutant(
        "one that is replaced goes on under its old claim",
        "its version goes on from the old one's",
        "engine",
        "again = replace(born, version=task.version + 1)",
        "again = replace(born, version=task.version)",
        _CONFORMANCE,
    ),
    Mutant(
        "what it called begins at version 0 again",
        "who held what was called before can write nothing",
        "engine",
        "return 0 if task is None else task.version + 1",
        "return 0",
        _CONFORMANCE,
    ),
    Mutant(
        "a second start under the same key replaces the first",
        "the same start sent again is answered with the first",
        "engine",
        "if creation.ikc is not None and existing.ikc == creation.ikc:\n    return seen",
        'if creation.ikc is not None and existing.ikc == creation.ikc and seen.state != "pending":\n'
        "    return seen",
        _CONFORMANCE,
    ),
    Mutant(
        "a fork observes what its origin does",
        "a fork has records of its own: what it has seen is named by its own ids",
        "engine",
        "if observed is not None and observed.startswith(old):\n    headers = ...\n    value = ...",
        "pass",
        _CONFORMANCE,
    ),
    Mutant(
        "cancelling at once leaves what it called running",
        "whoever is ended at once takes along what it called",
        "engine",
        "if data.now:\n    end_called(...)",
        "pass",
        _CONFORMANCE,
    ),
    Mutant(
        "cancelling at once ends what somebody else has called",
        "whoever is ended at once takes along only what it called itself",
        "engine",
        "if is_operation_of(operation, execution_id) and execution_id in ws.awaiters(key):\n"
        "    operations[key] = operation",
        "if operation and execution_id in ws.awaiters(key):\n    operations[key] = operation",
        _CONFORMANCE,
    ),
    Mutant(
        "cancelling at once ends what was only started",
        "a call that has a record is over: what it started goes on",
        "engine",
        "return found + [key for key, operation in operations.items() if ws.promise(operation) is None]",
        "return found + [*operations]",
        _CONFORMANCE,
    ),
    Mutant(
        "cancelling at once leaves what is too deep alone",
        "what is not ended with the rest is asked to cancel itself",
        "engine",
        "if key in asked:\n    ask_to_cancel(promise, ws, now)\nelse:\n    end(promise, ws, now)",
        "if key not in asked:\n    end(promise, ws, now)",
        _CONFORMANCE,
    ),
    Mutant(
        "a refused action leaves its first half behind",
        "an action that is refused inside a fence has changed nothing",
        "engine",
        "try:\n    ...\nexcept Refusal as refusal:\n    ws.undo()\n    inner = refuse(refusal)",
        "try:\n    ...\nexcept Refusal as refusal:\n    inner = refuse(refusal)",
        "tests/conformance/test_events.py -k memory",
    ),
    Mutant(
        "a lock that is taken is no progress",
        "a record that was not there is progress, whatever it is of",
        "engine",
        "match action:\n    case CreateAction() | SettleAction() | AcquireAction() | AwaitAction():\n"
        "        return action.data.id\n    case _:\n        return None",
        "match action:\n    case CreateAction() | SettleAction():\n"
        "        return action.data.id\n    case _:\n        return None",
        _CRASHES,
    ),
    Mutant(
        "a new generation inherits the crashes of the last",
        "to continue is progress",
        "engine",
        "replace(task, progress=None, woken_by=None, retries=0, error=None, bounces=0, crashes=0)",
        "replace(task, progress=None, woken_by=None, retries=0, error=None, bounces=0)",
        _CRASHES,
    ),
    Mutant(
        "what got more time is watched no more",
        "what somebody waits for is settled at its deadline, also after a retry",
        "engine",
        "ws.need_obligations([*(promise.id for promise, _ in plan.prolonged), *plan.forgotten])\nended = ...",
        "ended = ...",
        _CONFORMANCE,
    ),
    Mutant(
        "who waits for what a retry takes back is told nothing",
        "a promise that is deleted is settled first",
        "engine",
        'if write_end(known, ws, now).state == "pending":\n    end(known, ws, now)',
        "write_end(known, ws, now)",
        _CONFORMANCE,
    ),
)
