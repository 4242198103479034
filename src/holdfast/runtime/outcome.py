"""What combinators say of their inputs: `Ok` and `Err` for each, `Selected` for the first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, NamedTuple, NoReturn, TypeVar

from holdfast.runtime.future import Future

T = TypeVar("T")


class Ok(NamedTuple, Generic[T]):
    """What succeeded: an input of `all_settled`, or a `try_send`. `ok_value` is the value."""

    value: T

    @property
    def is_ok(self) -> bool:
        """True."""
        return True

    @property
    def is_err(self) -> bool:
        """False."""
        return False

    @property
    def ok_value(self) -> T:
        """The value."""
        return self.value

    @property
    def err_value(self) -> NoReturn:
        """Raises, because there is no error."""
        raise ValueError("It succeeded, so there is no error.")


@dataclass(frozen=True, slots=True)
class Err(Generic[T]):
    """What failed: an input of `all_settled`, or a `try_send`. `err_value` is the error."""

    error: T

    @property
    def is_ok(self) -> bool:
        """False."""
        return False

    @property
    def is_err(self) -> bool:
        """True."""
        return True

    @property
    def ok_value(self) -> NoReturn:
        """Raises, because there is no value; the error is the cause."""
        cause = self.error if isinstance(self.error, BaseException) else None
        raise ValueError(f"It failed, so there is no value: {self.error}") from cause

    @property
    def err_value(self) -> T:
        """The error."""
        return self.error


class Selected(NamedTuple, Generic[T]):
    """The branch that settled first. Await `future` for its value or its error."""

    tag: str
    future: Future[T]
