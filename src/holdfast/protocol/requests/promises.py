"""promise.*, and the actions that carry them inside other requests."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

from holdfast.protocol import limits, tags
from holdfast.protocol.address import parse_address
from holdfast.protocol.records import PromiseState, Settlement, Value
from holdfast.protocol.requests.checks import RequestData, check_meaning, check_page, check_value, meaningful
from holdfast.protocol.text import are_harmless, check_entries, check_integer, check_text


class PromiseGet(RequestData, frozen=True):
    id: str

    def __post_init__(self) -> None:
        check_text("id", self.id)


class Settle(Struct, frozen=True):
    """How a promise that is created in the same request is settled."""

    state: Settlement
    value: Value = field(default_factory=Value)
    iku: str | None = None

    def __post_init__(self) -> None:
        check_value("settle.value", self.value)
        if self.iku is not None:
            check_text("settle.iku", self.iku)


class PromiseCreate(RequestData, frozen=True):
    id: str
    timeout_at: int
    param: Value = field(default_factory=Value)
    tags: dict[str, str] = field(default_factory=dict[str, str])
    ikc: str | None = None
    settle: Settle | None = None

    def __post_init__(self) -> None:
        check_text("id", self.id)
        if not 0 <= self.timeout_at <= limits.instant_ms_max:
            check_integer("timeoutAt", self.timeout_at, 0)
        if not are_harmless(self.param.headers or {}, self.tags):
            check_value("param", self.param)
            check_entries("tags", self.tags)
        elif self.param.data:
            check_text("param.data", self.param.data, limits.data_bytes_max)
        if self.ikc is not None:
            check_text("ikc", self.ikc)
        if self.tags and not meaningful.isdisjoint(self.tags):
            check_meaning(self.tags)
            if tags.DELAY in self.tags and (delay := tags.delay_of(self.tags)) is not None:
                self._check_delay(delay)

    def _check_delay(self, delay: int) -> None:
        if delay >= self.timeout_at:
            raise ValueError("tag resonate:delay must lie before timeoutAt, or the task could never run")
        job = tags.job_of(self.tags)
        if job is not None and job.good_until is not None and delay >= job.good_until:
            raise ValueError("tag resonate:delay must lie before goodUntil, or the task could never run")


class PromiseSettle(RequestData, frozen=True):
    id: str
    state: Settlement
    value: Value = field(default_factory=Value)
    iku: str | None = None

    def __post_init__(self) -> None:
        check_text("id", self.id)
        check_value("value", self.value)
        if self.iku is not None:
            check_text("iku", self.iku)


class PromiseRegisterCallback(RequestData, frozen=True):
    awaited: str
    awaiter: str

    def __post_init__(self) -> None:
        check_text("awaited", self.awaited)
        check_text("awaiter", self.awaiter)
        if self.awaited == self.awaiter:
            raise ValueError("a promise cannot await itself")


class PromiseRegisterListener(RequestData, frozen=True):
    awaited: str
    address: str

    def __post_init__(self) -> None:
        check_text("awaited", self.awaited)
        parse_address(self.address)


class PromiseSearch(RequestData, frozen=True):
    state: PromiseState | None = None
    tags: dict[str, str] | None = None
    prefix: str | None = None
    limit: int | None = None
    cursor: str | None = None

    def __post_init__(self) -> None:
        check_page(self.limit, self.cursor, self.prefix)
        if self.tags is not None:
            check_entries("tags", self.tags)


class CreateAction(Struct, frozen=True, tag_field="kind", tag="promise.create"):
    data: PromiseCreate
    head: dict[str, Any] = field(default_factory=dict[str, Any])


class SettleAction(Struct, frozen=True, tag_field="kind", tag="promise.settle"):
    data: PromiseSettle
    head: dict[str, Any] = field(default_factory=dict[str, Any])


class RegisterAction(Struct, frozen=True):
    kind: Literal["promise.register_callback", "promise.register"]
    data: PromiseRegisterCallback
    head: dict[str, Any] = field(default_factory=dict[str, Any])
