"""The catch-all: one workflow for every name that nobody has declared.

Each name gets a function of its own, which calls that of the fallback with the name first. So its executions
are recorded, compared and replayed under their own names.
"""

import inspect
from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from typing import Any, Final, cast

names_max: Final = 1_000  # that are kept; others are made again


class FallbackFunctions:
    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._made: OrderedDict[str, Callable[..., Any]] = OrderedDict()

    def of(self, name: str) -> Callable[..., Any]:
        found = self._made.get(name)
        if found is None:
            found = self._made[name] = self._make(name)
            while len(self._made) > names_max:
                self._made.popitem(last=False)
        return found

    def _make(self, name: str) -> Callable[..., Any]:
        function = self._function

        @wraps(function)
        def named(*args: Any, **kwargs: Any) -> Any:
            return function(name, *args, **kwargs)

        without_first(named, function)
        return named


def without_first(function: Callable[..., Any], original: Callable[..., Any]) -> None:
    """Show the parameters of another function without the first one, which is filled in."""
    signature = inspect.signature(original)
    parameters = [*signature.parameters.values()]
    if parameters and parameters[0].kind is not inspect.Parameter.VAR_POSITIONAL:
        del parameters[0]
    cast(Any, function).__signature__ = signature.replace(parameters=parameters)
