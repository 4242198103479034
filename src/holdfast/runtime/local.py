"""Locals: values that belong to one execution and are seen by all its fibers.

For what belongs to one fiber and is inherited by those it spawns, use `contextvars`: each fiber runs in
its own Context.

1. One bag per execution; fibers share it, the last writer wins, values are kept by reference.
2. The default applies only while nothing was set: an explicit None is a value.
3. Not durable: a replay rebuilds it by running the same code.
"""

from __future__ import annotations

from typing import Generic, TypeVar, cast

from holdfast.runtime.slot import current

T = TypeVar("T")


class Local(Generic[T]):
    """An execution-wide variable. Two locals never collide, whatever they are called.

    >>> tenant = Local("nobody")
    >>> async def greet() -> str:
    ...     tenant.set("ada")
    ...     return tenant.get()
    """

    __slots__ = ("default",)

    def __init__(self, default: T) -> None:
        self.default = default

    def get(self) -> T:
        return cast(T, current().locals.get(self, self.default))

    def set(self, value: T) -> None:
        current().locals[self] = value
