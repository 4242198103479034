"""What an app hangs into the work of its process: middlewares, carried context variables and observers."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from holdfast.payloads.interactive import is_interactive
from holdfast.payloads.payloads import Payloads
from holdfast.protocol.records import Value
from holdfast.steps.carried import CarriedContext
from holdfast.steps.middleware import Entered, Invocation, Kind, Middlewares
from holdfast.steps.observer import Observer, Observers


class Hooks:
    def __init__(self) -> None:
        self.middlewares = Middlewares()
        self.carried = CarriedContext()
        self.observers = Observers()
        self._extensions: list[object] = []

    def add_extension(self, extension: object) -> None:
        """At a prompt and in a notebook, one that is used again replaces the one of its class."""
        if is_interactive():
            for other in [each for each in self._extensions if _class_name(each) == _class_name(extension)]:
                self._extensions.remove(other)
                self.observers.remove(other)
                self.middlewares.remove(partial(_is_of, other))
        self._extensions.append(extension)
        if isinstance(extension, Observer):
            self.observers.add(extension)

    def leaving(
        self,
        kind: Kind,
        name: str,
        id: str,  # noqa: A002
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        payloads: Payloads,
        **more: Any,
    ) -> Entered | None:
        """A start, a send or a message is about to leave: None if nobody looks and nothing is carried.

        Its invocation has the arguments and headers to leave with.
        """
        if not self.carried.variables and not self.middlewares.around[kind]:
            return None
        headers = self.carried.headers(payloads)
        return self.middlewares.enter(Invocation(kind, name, id, args, kwargs, headers=headers, **more))


def _class_name(extension: object) -> tuple[str, str]:
    return type(extension).__module__, type(extension).__qualname__


def _is_of(extension: object, middleware: object) -> bool:
    return getattr(middleware, "__self__", None) is extension


def with_headers(value: Value, headers: Mapping[str, str] | None) -> Value:
    return value if not headers else Value({**(value.headers or {}), **headers}, value.data)
