"""Checks that several kinds of requests share. All raise ValueError with a sentence."""

from __future__ import annotations

from msgspec import Struct

from holdfast.protocol import limits, tags
from holdfast.protocol.address import Poll, parse_address
from holdfast.protocol.jobs import check_queue, queue_of
from holdfast.protocol.records import Value
from holdfast.protocol.text import check_entries, check_integer, check_text


class RequestData(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The data of one request."""


def check_value(name: str, value: Value) -> None:
    if value.headers:
        check_entries(f"{name}.headers", value.headers)
    if value.data:
        check_text(f"{name}.data", value.data, limits.data_bytes_max)


def check_claim(pid: str, ttl: int) -> None:
    check_text("pid", pid)
    check_integer("ttl", ttl, 1, limits.ttl_ms_max)


def check_tags(entries: dict[str, str]) -> None:
    check_entries("tags", entries)
    target = entries.get(tags.TARGET)
    if target is not None:
        parse_address(target)
    tags.priority_of(entries)
    if tags.DEPENDENT in entries:
        raise ValueError(f"tag {tags.DEPENDENT} is written by the node alone")
    if tags.JOB in entries:
        tags.job_of(entries)
        if tags.QUEUE in entries:
            raise ValueError("a background task has its place in a queue already: leave out holdfast:queue")
        check_queued(entries, "a background task")
    elif tags.QUEUE in entries:
        tags.place_of(entries)
        check_queued(entries, "an execution with holdfast:queue")


def check_queued(entries: dict[str, str], what: str) -> None:
    target = entries.get(tags.TARGET)
    address = None if target is None else parse_address(target)
    if not isinstance(address, Poll) or address.unicast or address.member is not None:
        raise ValueError(f"{what} needs a resonate:target of the form poll://any@queue.<name>")
    name = queue_of(address.group)
    if name is None:
        raise ValueError(f"{what} needs a resonate:target of the form poll://any@queue.<name>")
    check_queue(name)
    if tags.is_timer(entries):
        raise ValueError(f"{what} is work to be done, so resonate:timer makes no sense with it")


def check_page(limit: int | None, cursor: str | None, prefix: str | None) -> None:
    if limit is not None:
        check_integer("limit", limit, 1, limits.page_size_max)
    for name, text in (("cursor", cursor), ("prefix", prefix)):
        if text is not None:
            check_text(name, text, empty=True)


def check_ref(task_id: str, version: int) -> None:
    check_text("id", task_id)
    check_integer("version", version, 0, limits.version_max)
