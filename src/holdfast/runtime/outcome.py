"""What combinators say of their inputs: `Ok` and `Err` for each, `Selected` for the first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, NamedTuple, NoReturn, TypeVar

from holdfast.runtime.future import Future

T = TypeVar("T")


class Ok(NamedTuple, Generic[T]):
    """What succeeded: an input in the list `all_settled` gives, or something that was asked of a node."""

    value: T

    @property
    def is_ok(self) -> bool:
        return True

    @property
    def is_err(self) -> bool:
        return False

    @property
    def ok_value(self) -> T:
        return self.value

    @property
    def err_value(self) -> NoReturn:
        raise ValueError("It succeeded, so there is no error.")


@dataclass(frozen=True, slots=True)
class Err(Generic[T]):
    """What failed: an input in the list `all_settled` gives, or something that was asked of a node."""

    error: T

    @property
    def is_ok(self) -> bool:
        return False

    @property
    def is_err(self) -> bool:
        return True

    @property
    def ok_value(self) -> NoReturn:
        cause = self.error if isinstance(self.error, BaseException) else None
        raise ValueError(f"It failed, so there is no value: {self.error}") from cause

    @property
    def err_value(self) -> T:
        return self.error


class Selected(NamedTuple, Generic[T]):
    """The branch that settled first. Await `future` for its value or its error."""

    tag: str
    future: Future[T]
