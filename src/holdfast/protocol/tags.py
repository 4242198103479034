"""The names of all tags that Holdfast reads or writes, and how the engine reads those that it knows."""

from collections.abc import Mapping
from typing import Final

from holdfast.protocol import limits
from holdfast.protocol.jobs import JobSpec, QueueSpec, parse_job, parse_queue

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
QUEUE: Final = "holdfast:queue"  # the place of an execution in a queue

# What the engine only keeps.
SCOPE: Final = "resonate:scope"
STREAM: Final = "holdfast:stream"  # of an element, and of the record of a key: in which stream
TASK: Final = "holdfast:task"  # the name of a background task
WORKFLOW: Final = "holdfast:workflow"  # the name of a workflow, on each of its executions
FINGERPRINT: Final = "holdfast:payload"  # of its name and arguments
SENDING: Final = "holdfast:sending"  # which send made it
DECLARED_BY: Final = "holdfast:declared-by"  # of a schedule: the group of the app that declares it
TIME_LIMIT: Final = "holdfast:time-limit"  # of one attempt at a background task, in milliseconds
RERUN_OF: Final = "holdfast:rerun-of"

LINEAGE: Final = (ORIGIN, BRANCH, PARENT, PREFIX)


def is_timer(tags: Mapping[str, str]) -> bool:
    return tags.get(TIMER) == "true"


def is_external(tags: Mapping[str, str]) -> bool:
    return tags.get(EXTERNAL) == "true"


def is_depended_on(tags: Mapping[str, str]) -> bool:
    """Must the node settle such a promise at its deadline, though nobody has registered?"""
    return is_timer(tags) or is_external(tags) or DEPENDENT in tags


def delay_of(tags: Mapping[str, str]) -> int | None:
    """The instant before which the first execute must not be sent; ValueError when it is none."""
    text = tags.get(DELAY)
    return None if text is None else _integer(DELAY, text, 0, limits.instant_ms_max)


def priority_of(tags: Mapping[str, str]) -> int:
    text = tags.get(PRIORITY)
    return 0 if text is None else _integer(PRIORITY, text, -limits.priority_max, limits.priority_max)


def job_of(tags: Mapping[str, str]) -> JobSpec | None:
    """What a promise says about its job, if it is one; ValueError when that makes no sense."""
    text = tags.get(JOB)
    return None if text is None else parse_job(text)


def place_of(tags: Mapping[str, str]) -> QueueSpec | None:
    """What a promise says about the place of its execution in a queue, if it has one; ValueError likewise."""
    text = tags.get(QUEUE)
    return None if text is None else parse_queue(text)


def _integer(name: str, text: str, least: int, most: int) -> int:
    digits = text[1:] if text.startswith("-") else text
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 16 and least <= int(text) <= most):
        raise ValueError(f"tag {name} must be an integer from {least} to {most}, not {text[:40]!r}")
    return int(text)
