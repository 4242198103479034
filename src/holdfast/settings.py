"""The settings of a session: what an app is given, and the console may change before it is opened."""

from typing import Final

from msgspec import Struct

from holdfast.client.tls import Certificate
from holdfast.protocol import limits
from holdfast.protocol.address import parse_address
from holdfast.tasks.lanes import TaskSettings
from holdfast.worker.errors import BadSetting
from holdfast.worker.payload import Codec

lease_s_min: Final = 0.1  # with less, it is over before a heartbeat can be answered


class SessionSettings(Struct, frozen=True):
    url: str
    group: str
    worker: bool
    concurrency: int
    lease_s: float
    token: str | None
    certificate: Certificate
    codec: Codec | None
    grace_s: float = 10.0  # for running steps, when it is closed
    tasks: TaskSettings = TaskSettings()
    retention_s: float | None = None

    def __post_init__(self) -> None:
        if type(self.concurrency) is not int or self.concurrency < 1:
            raise BadSetting(f"concurrency is a number of at least 1, not {self.concurrency!r}")
        lease_s_max = limits.ttl_ms_max / 1000
        if not lease_s_min <= self.lease_s <= lease_s_max:
            raise BadSetting(f"lease lasts {lease_s_min:g} to {lease_s_max:g} seconds, not {self.lease_s:g}")
        if not _is_group(self.group):
            raise BadSetting(f"group is a text without '/' and '@', not {self.group!r}")


def _is_group(given: object) -> bool:
    try:
        parse_address(f"poll://any@{given}")
    except ValueError:
        return False
    return isinstance(given, str) and "/" not in given
