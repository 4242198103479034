"""Faults that every suite once let pass: found by reading, and tested for since."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

FOUND = (
    Mutant(
        "the timer of a task rings early",
        "what is fired early changes nothing",
        "engine/sweep.py",
        "    if task is None or task.due_at is None or task.due_at > now:",
        "    if task is None or task.due_at is None:",
        "tests/node/test_due.py",
    ),
    Mutant(
        "an expired task can be waited for",
        "everybody sees the same of a task that has expired",
        "engine/tasks.py",
        "        awaited[promise.id] = see_promise(promise, ws, now)",
        "        awaited[promise.id] = view_promise(promise, now)",
        "tests/jobs/test_state_table.py -k memory",
    ),
    Mutant(
        "an hour that the clock repeats is begun again",
        "the next occurrence lies after the instant",
        "protocol/cron.py",
        "    return next((instant for instant in occurrences if instant > after), limits.instant_ms_max)",
        "    return next(occurrences)",
        "tests/protocol/test_cron.py",
    ),
    Mutant(
        "tags are taken for fields",
        "a user's tags are left as they are",
        "protocol/wire.py",
        "item if key in _users_maps else _fill(item)",
        "_fill(item)",
        "tests/conformance/test_reply_shapes.py -k memory",
    ),
    Mutant(
        "an older invitation replaces a newer one",
        "of two invitations to a task the newer stands",
        "node/post_office.py",
        "        if known is not None and message.is_older_than(known):",
        "        if known is not None and known.is_older_than(message):",
        "tests/node/test_post_office.py",
    ),
    Mutant(
        "the machine's clock is shown where the database is the judge",
        "whoever sets the clock of a node changes nothing",
        "node/node.py",
        "        if self._store.keeps_time:  #",
        "        if not self._store.keeps_time:  #",
        "tests/cluster/test_many_nodes.py -k clock",
    ),
    Mutant(
        "what is damaged keeps all others from being claimed",
        "a record that cannot be read stops only what needs it",
        "node/group.py",
        "        except CorruptRecord:\n            for task_id in found:",
        "        except CorruptRecord:\n            for task_id in found[:0]:",
        "tests/node/test_corrupt_records.py -k sqlite",
    ),
)
