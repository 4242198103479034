"""Context variables that travel with the work: from whoever starts it to its steps, tasks and messages.

    tenant: ContextVar[str] = ContextVar("tenant")
    app.carry(tenant)

The values are one header of the param (of a message: of its value), written by the app's codec like every
payload. So they are recorded, and a replay sees the same.

1. What is not set where a start is made is not set where it runs: nothing leaks from the worker's Context.
2. Inside an execution the variables are ordinary ones. A step is performed in a copy of its fiber's Context,
   so it sees what the fiber sees. A step in a child process is told by its order.
3. A message has the values of its sender beside it. Who receives it has his own until he asks for those:
   `with message.context():`.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import Context, ContextVar, Token, copy_context
from typing import Any, Final

from msgspec import Struct

from holdfast.payloads.errors import WorkerError
from holdfast.payloads.interactive import is_interactive
from holdfast.payloads.payloads import Payloads
from holdfast.protocol import limits
from holdfast.protocol.records import Value
from holdfast.steps.errors import BadCarried

HEADER: Final = "holdfast:carried"
carried_max: Final = 32  # variables of one app
carried_bytes_max: Final = limits.entry_bytes_max  # of all values together, as they are stored

_missing: Final[Any] = object()


class CarriedVariable(Struct, frozen=True):
    variable: ContextVar[Any]
    type: Any


# By name, in this process: a child finds them here once it has imported the module that declares them.
_declared: Final[dict[str, CarriedVariable]] = {}


class CarriedContext:
    """The variables of one app."""

    def __init__(self) -> None:
        self.variables: dict[str, CarriedVariable] = {}

    def add(self, variable: ContextVar[Any], name: str | None = None, type_: Any = Any) -> None:
        if not isinstance(variable, ContextVar):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BadCarried(f"{variable!r} is no ContextVar")
        name = name or variable.name
        known = self.variables.get(name)
        if known is not None and known.variable is not variable and not is_interactive():
            raise BadCarried(f"Two context variables are carried under the name {name!r}")
        if known is None and len(self.variables) >= carried_max:
            raise BadCarried(f"There are {carried_max} carried variables already, without {name!r}")
        self.variables[name] = _declared[name] = CarriedVariable(variable, type_)

    def headers(self, payloads: Payloads) -> dict[str, str]:
        """What is set here, as a header. Raises BadCarried."""
        values = {
            name: value
            for name, each in self.variables.items()
            if (value := each.variable.get(_missing)) is not _missing
        }
        if not values:
            return {}
        try:
            text = payloads.encode(values).data or ""
        except WorkerError as error:
            raise BadCarried(f"A carried context variable cannot be stored: {error.what}") from error
        if len(text) > carried_bytes_max:
            raise BadCarried(
                f"The carried context variables ({', '.join(values)}) take {len(text):,} bytes as they are "
                f"stored; the limit is {carried_bytes_max:,}"
            )
        return {HEADER: text}

    def context(self, value: Value, payloads: Payloads) -> Context:
        """A Context for what was started with this param: as the current one, but with its values."""
        context = copy_context()
        if not self.variables:
            return context
        ours = {each.variable for each in self.variables.values()}
        if any(variable in context for variable in ours):
            inherited, context = context, Context()
            for variable, kept in inherited.items():
                if variable not in ours:
                    context.run(variable.set, kept)
        context.run(self.set, value.headers, payloads)
        return context

    def set(self, headers: Mapping[str, str] | None, payloads: Payloads) -> list[Token[Any]]:
        """Set here what somebody has sent."""
        text = (headers or {}).get(HEADER)
        if text is None or not self.variables:
            return []
        known = self.variables
        found: dict[str, Any] = payloads.decode(Value(None, text), dict[str, Any])
        return [
            known[name].variable.set(_typed(payloads, value, known[name].type))
            for name, value in found.items()
            if name in known
        ]

    @contextmanager
    def using(self, headers: Mapping[str, str] | None, payloads: Payloads) -> Generator[None]:
        """A block with what somebody has sent; afterwards it is as it was."""
        tokens = self.set(headers, payloads)
        try:
            yield
        finally:
            for token in reversed(tokens):
                token.var.reset(token)


def _typed(payloads: Payloads, value: Any, type_: Any) -> Any:
    return value if type_ is Any else payloads.decode(payloads.encode(value), type_)


def carried_here(context: Context) -> dict[str, Any]:
    """The values that a Context has of all that this process carries, for a child."""
    return {name: context[each.variable] for name, each in _declared.items() if each.variable in context}


def set_declared(values: Mapping[str, Any]) -> None:
    """In a child process: the values that its order has."""
    plain = Payloads()
    for name, value in values.items():
        each = _declared.get(name)
        if each is not None:
            each.variable.set(_typed(plain, value, each.type))
