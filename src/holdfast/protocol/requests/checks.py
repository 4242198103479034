"""Checks that several kinds of requests share. All raise ValueError with a sentence."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from msgspec import Struct

from holdfast.protocol import limits, tags
from holdfast.protocol.address import Poll, parse_address
from holdfast.protocol.jobs import check_queue, queue_of
from holdfast.protocol.records import Value
from holdfast.protocol.text import are_harmless, check_entries, check_integer, check_text


class RequestData(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The data of one request."""


def check_value(name: str, value: Value) -> None:
    if value.headers and not are_harmless(value.headers):
        check_entries(f"{name}.headers", value.headers)
    if value.data:
        check_text(f"{name}.data", value.data, limits.data_bytes_max)


def check_generation(generation: int | None) -> None:
    if generation is not None:
        check_integer("generation", generation, 0, limits.version_max)


def check_claim(pid: str, ttl: int) -> None:
    check_text("pid", pid)
    check_integer("ttl", ttl, 1, limits.ttl_ms_max)


def check_tags(entries: dict[str, str]) -> None:
    check_entries("tags", entries)
    check_meaning(entries)


def check_meaning(entries: dict[str, str]) -> None:
    """Of the tags that mean something to us."""
    if meaningful.isdisjoint(entries):
        return
    target = entries.get(tags.TARGET)
    if target is not None:
        parse_address(target)
    tags.priority_of(entries)
    if tags.CRASHES in entries:
        tags.crashes_of(entries)
    if tags.KEEP in entries:
        tags.keep_of(entries)
    if tags.GRACE in entries:
        tags.grace_of(entries)
        if tags.TARGET not in entries or tags.JOB in entries or tags.is_timer(entries):
            raise ValueError(
                "tag holdfast:grace is for executions: they need a resonate:target, no others do"
            )
    for name in tags.NODE_ALONE:
        if name in entries:
            raise ValueError(f"tag {name} is written by the node alone")
    if tags.JOB in entries:
        tags.job_of(entries)
        if tags.QUEUE in entries:
            raise ValueError("a background task already has a queue: leave out holdfast:queue")
        check_queued(entries, "a background task")
    elif tags.QUEUE in entries:
        tags.place_of(entries)
        check_queued(entries, "an execution with holdfast:queue")


meaningful: Final = frozenset(
    {
        *(tags.TARGET, tags.PRIORITY, tags.CRASHES, tags.GRACE, tags.KEEP, tags.JOB, tags.QUEUE, tags.DELAY),
        *tags.NODE_ALONE,
    }
)


def check_queued(entries: dict[str, str], what: str) -> None:
    _check_queue_target(entries.get(tags.TARGET), what)
    if tags.is_timer(entries):
        raise ValueError(f"{what} is work to be done, so it cannot have a resonate:timer")


@lru_cache(maxsize=4096)
def _check_queue_target(target: str | None, what: str) -> None:
    address = None if target is None else parse_address(target)
    if not isinstance(address, Poll) or address.unicast or address.member is not None:
        raise ValueError(f"{what} needs a resonate:target of the form poll://any@queue.<name>")
    name = queue_of(address.group)
    if name is None:
        raise ValueError(f"{what} needs a resonate:target of the form poll://any@queue.<name>")
    check_queue(name)


def check_page(limit: int | None, cursor: str | None, prefix: str | None) -> None:
    if limit is not None:
        check_integer("limit", limit, 1, limits.page_size_max)
    for name, text in (("cursor", cursor), ("prefix", prefix)):
        if text is not None:
            check_text(name, text, empty=True)


def check_ref(task_id: str, version: int) -> None:
    check_text("id", task_id)
    if not 0 <= version <= limits.version_max:
        check_integer("version", version, 0, limits.version_max)
