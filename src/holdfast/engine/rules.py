"""The few numbers of the rules that an operator may choose."""

from msgspec import Struct

from holdfast.protocol import limits


class Rules(Struct, frozen=True):
    retry_ms: int = limits.retry_ms  # how long a pending task waits before it is offered again

    def __post_init__(self) -> None:
        if self.retry_ms <= 0:
            raise ValueError("retry_ms must be positive: a task that nobody takes is offered again and again")
