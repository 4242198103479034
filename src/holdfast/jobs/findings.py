"""Reads the options of declarations, so that all mistakes are found at once (payloads/findings.py)."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from holdfast.jobs.errors import BadOption
from holdfast.payloads.findings import note as note
from holdfast.protocol.errors import HoldfastError

P = ParamSpec("P")
T = TypeVar("T")


def read_options(
    of: str, given: Mapping[str, Any], readers: Mapping[str, Callable[[Any], Any]], function: Any = None
) -> dict[str, Any]:
    """What the readers make of the options, each by itself: those that are refused are left out."""
    read: dict[str, Any] = {}
    for name, value in given.items():
        try:
            if name not in readers:
                raise _unknown(of, name, readers)
            read[name] = readers[name](value)
        except HoldfastError as error:
            note(error, function)
    return read


def named_options(of: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """For a function with options by name: one that it does not have is noted, and the rest are taken."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        parameters = inspect.signature(function).parameters.values()
        known = [each.name for each in parameters if each.kind is not each.POSITIONAL_ONLY]

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            for name in [name for name in kwargs if name not in known]:
                kwargs.pop(name)
                note(_unknown(of, name, known))
            return function(*args, **kwargs)

        return call

    return decorate


def _unknown(of: str, name: str, known: Iterable[str]) -> BadOption:
    options = [each for each in known if each != "self"]
    nearest = get_close_matches(name, options, 1)
    rest = f"did you mean {nearest[0]}?" if nearest else f"it has {', '.join(options)}"
    return BadOption(f"{of[0].upper()}{of[1:]} has no option {name} ({rest})")
