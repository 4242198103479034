"""The names of all tags that Holdfast reads or writes, and how the engine reads those that it knows."""

from collections.abc import Mapping
from typing import Final

import msgspec

from holdfast.protocol import limits
from holdfast.protocol.jobs import JobSpec, KeyOverlap, QueueSpec, parse_job, parse_queue, queue_group

TARGET: Final = "resonate:target"
INVOKE: Final = "resonate:invoke"
DELAY: Final = "resonate:delay"
TIMER: Final = "resonate:timer"
EXTERNAL: Final = "resonate:external"
BRANCH: Final = "resonate:branch"
ORIGIN: Final = "resonate:origin"
PARENT: Final = "resonate:parent"
PREFIX: Final = "resonate:prefix"
SCHEDULE: Final = "resonate:schedule"
PRIORITY: Final = "holdfast:priority"
JOB: Final = "holdfast:job"
# Written by the node alone: a promise that ends with the execution named here, and which question it answers.
DEPENDENT: Final = "holdfast:dependent"
ANSWER: Final = "holdfast:answer"
LOCK: Final = "holdfast:lock"  # also by the node alone: the promise is the record of the lock named here
TICKET: Final = "holdfast:ticket"  # likewise: the promise is a ticket for the lock named here
# Likewise: the record of the events of a name; of who waits for a match; a bucket of these; a wait in one.
TOPIC: Final = "holdfast:topic"
WAITS: Final = "holdfast:waits"
BUCKET: Final = "holdfast:bucket"
WAIT: Final = "holdfast:wait"
# Likewise: at which version a task begins that is created under the id of this promise, after it is gone.
NEXT_VERSION: Final = "holdfast:next-version"
EVENT: Final = "holdfast:event"  # of an event, of who waits for one, and of what it started: its name
ATTRIBUTE: Final = "holdfast:attribute:"  # of an event: before the name of each
QUEUE: Final = "holdfast:queue"  # the place of an execution in a queue

GRACE: Final = (
    "holdfast:grace"  # so long before its deadline an execution is asked to cancel, in milliseconds
)
CRASHES: Final = "holdfast:crashes"  # how often in a row the worker of an execution may die
KEEP: Final = "holdfast:keep"  # of a root: so long its tree is kept after its end, in milliseconds
WORKFLOW: Final = "holdfast:workflow"  # the name of a workflow, on each of its executions

# What the engine only keeps.
SCOPE: Final = "resonate:scope"
RUN: Final = "holdfast:run"  # written by it where an id that had a task begins again: at which version
STREAM: Final = "holdfast:stream"  # of an element, and of the record of a key: in which stream
TASK: Final = "holdfast:task"  # the name of a background task
ENTITY: Final = "holdfast:entity"  # the key of an entity, on the execution that is it
FINGERPRINT: Final = "holdfast:payload"  # of its name and arguments
SENDING: Final = "holdfast:sending"  # which send made it
DECLARED_BY: Final = "holdfast:declared-by"  # of a schedule: the group of the app that declares it
TIME_LIMIT: Final = "holdfast:time-limit"  # of one attempt at a background task, in milliseconds
RERUN_OF: Final = "holdfast:rerun-of"
FORK_OF: Final = "holdfast:fork-of"
FORK_BEFORE: Final = "holdfast:fork-before"  # the operation, as it was named
CALLER: Final = "holdfast:caller"  # of an execution with an id of its own: the operation that called it

RECORDS: Final = (LOCK, TOPIC, WAITS, BUCKET, EVENT)  # of these promises the node alone settles those pending
_WATCHED: Final = frozenset(
    {DEPENDENT, TICKET, BUCKET}
)  # of a bucket, so that its waits are known whatever is written
DEPENDED_ON: Final = _WATCHED | {TIMER, EXTERNAL}  # without any of these nobody depends on it by its tags
# Nobody else writes these.
NODE_ALONE: Final = (DEPENDENT, LOCK, TICKET, TOPIC, WAITS, BUCKET, WAIT, EVENT, NEXT_VERSION)
RESERVED_TAGS: Final = ("resonate:", "holdfast:")  # names of the protocol's own begin so
LINEAGE: Final = (ORIGIN, BRANCH, PARENT, PREFIX)


def is_timer(tags: Mapping[str, str]) -> bool:
    return tags.get(TIMER) == "true"


def is_record(tags: Mapping[str, str]) -> bool:
    """Of a lock, or of events: the node alone settles it. Waits and what events have started are none."""
    if not any(name in tags for name in RECORDS):
        return False
    return DEPENDENT not in tags and TARGET not in tags


def is_external(tags: Mapping[str, str]) -> bool:
    return tags.get(EXTERNAL) == "true"


def is_depended_on(tags: Mapping[str, str]) -> bool:
    """Must the node settle such a promise at its deadline, though nobody has registered?"""
    if DEPENDED_ON.isdisjoint(tags):
        return False
    return is_timer(tags) or is_external(tags) or not _WATCHED.isdisjoint(tags)


def delay_of(tags: Mapping[str, str]) -> int | None:
    """The instant before which the first execute must not be sent; ValueError when it is none."""
    text = tags.get(DELAY)
    return None if text is None else _integer(DELAY, text, 0, limits.instant_ms_max)


def priority_of(tags: Mapping[str, str]) -> int:
    text = tags.get(PRIORITY)
    return 0 if text is None else _integer(PRIORITY, text, -limits.priority_max, limits.priority_max)


def crashes_of(tags: Mapping[str, str]) -> int | None:
    """How many failures in a row an execution may have without progress; None: it is no workflow's."""
    text = tags.get(CRASHES)
    if text is None:
        return limits.crashes_default if WORKFLOW in tags else None
    return _integer(CRASHES, text, 1, limits.crashes_max)


def grace_of(tags: Mapping[str, str]) -> int | None:
    """How long before its deadline an execution is asked to cancel itself; ValueError when that is none."""
    text = tags.get(GRACE)
    return None if text is None else _integer(GRACE, text, 1, limits.grace_ms_max)


def next_version_of(tags: Mapping[str, str]) -> int:
    """At which version a task begins that is created under the id of such a promise."""
    return int(tags.get(NEXT_VERSION, "0"))


def keep_of(tags: Mapping[str, str]) -> int | None:
    """How long a tree is kept after its end, whatever is said for all; ValueError when that is none."""
    text = tags.get(KEEP)
    return None if text is None else _integer(KEEP, text, limits.keep_ms_min, limits.instant_ms_max)


def job_of(tags: Mapping[str, str]) -> JobSpec | None:
    """What a promise says about its job, if it is one; ValueError when that makes no sense."""
    text = tags.get(JOB)
    return None if text is None else parse_job(text)


def place_of(tags: Mapping[str, str]) -> QueueSpec | None:
    """What a promise says about the place of its execution in a queue, if it has one; ValueError likewise."""
    text = tags.get(QUEUE)
    return None if text is None else parse_queue(text)


def queued(queue: str, key: str | None, overlap: KeyOverlap) -> dict[str, str]:
    """The tags of an execution that waits in a queue."""
    spec = msgspec.json.encode(QueueSpec(key, overlap)).decode()
    return {TARGET: f"poll://any@{queue_group(queue)}", QUEUE: spec}


def _integer(name: str, text: str, least: int, most: int) -> int:
    digits = text[1:] if text.startswith("-") else text
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 16 and least <= int(text) <= most):
        raise ValueError(f"tag {name} must be an integer from {least} to {most}, not {text[:40]!r}")
    return int(text)
