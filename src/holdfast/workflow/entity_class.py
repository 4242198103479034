"""What a class says of an entity: its state, its calls, and how an older state is read.

State is the annotated fields of the class, each with a default; in the store it is a JSON object. Calls are
its `async def` methods; a read may be a plain `def`. What runs a call is entities.py.

1. A state is stored only if it can be read back as the fields are annotated, so no call can leave a state
   behind that the next one cannot read.
2. A stored state of an older version goes through the class's `upgrade`. Fields that are not stored have
   their defaults; fields that the class does not have are an error, because they would be lost.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from types import MethodType
from typing import Any, ClassVar, Final, Generic, TypeVar, cast, get_origin, get_type_hints
from urllib.parse import quote, unquote

from msgspec import Raw

from holdfast.payloads.payloads import dump, load
from holdfast.payloads.signature import signature_of
from holdfast.payloads.user_tags import check_id
from holdfast.workflow.errors import BadEntity, EntityMisused, EntityStateUnread

E = TypeVar("E")
M = TypeVar("M", bound=Callable[..., Any])
State = dict[str, Raw]

_read_mark: Final = "__holdfast_read__"
_declared: Final = "__holdfast_entity__"
_reserved: Final = ("key",)


class Entity:
    """The base of an entity's class, for type checkers: with it `Account("ada")` has the right type.

    `key` is that of the instance. At run time a class needs no base.
    """

    key: str

    def __init__(self, key: str) -> None:
        raise EntityMisused(f"{type(self).__name__} is not declared: decorate it with @app.entity")


def read(method: M) -> M:
    """Mark a method of an entity that does not change it: it is answered at once, beside a running call.

    It sees the state as the last finished call left it, and may not wait for anything.
    """
    setattr(method, _read_mark, True)
    return method


class EntityClass(Generic[E]):
    """What is known of an entity's class."""

    def __init__(self, cls: type[E], name: str | None, version: int, group: str | None) -> None:
        self.cls = cls
        self.name = name or cls.__name__
        self.version = version
        self.group = group
        if "/" in self.name or type(version) is not int or version < 1:
            raise BadEntity(
                f"The entity {self.name!r} version {version!r}: a name has no '/', a version is >= 1"
            )
        if (known := next((base for base in cls.__mro__ if _declared in vars(base)), None)) is not None:
            raise BadEntity(
                f"{cls.__name__} is an entity already, and cannot be declared again"
                if known is cls
                else f"{cls.__name__} is a subclass of the entity {known.__name__}: put what both have into "
                "a class that is no entity"
            )
        if cls.__init__ not in (object.__init__, Entity.__init__) and not _is_plain_dataclass(cls):
            raise BadEntity(
                f"{cls.__name__} has an __init__, which is never called: give the fields default values"
            )
        self.types = _fields(cls)
        self.defaults: State = {field: self._default(field) for field in self.types}
        self.methods: dict[str, Callable[..., Any]] = {}
        self.reads: set[str] = set()
        # Their parameters without `self`; kept, because signatures are remembered as long as these live.
        self.calls: dict[str, MethodType] = {}
        for method_name, method in inspect.getmembers(cls, inspect.isfunction):
            is_read = getattr(method, _read_mark, False)
            if not method_name.startswith("_") and (is_read or inspect.iscoroutinefunction(method)):
                self.methods[method_name] = _awaited(method)
                self.calls[method_name] = MethodType(method, cls)
                if is_read:
                    self.reads.add(method_name)
        if not self.methods:
            raise BadEntity(f"{cls.__name__} has no `async def` method, so it cannot be called")

    def id_of(self, key: str) -> str:
        """Of the execution that is this instance. What would divide an id is written otherwise."""
        if not isinstance(cast(Any, key), str) or not key:
            raise EntityMisused(f"The key of an entity must be a string, not {key!r}")
        return check_id(f"{self.name}/{quote(key, safe=' !@$^&*()_+-=,;<>?[]{}|~').replace('.', '%2E')}")

    def key_of(self, execution_id: str) -> str:
        return unquote(execution_id.removeprefix(f"{self.name}/"))

    def instance(self, key: str, state: Mapping[str, Raw] | None, version: int | None = None) -> E:
        """An instance with this state; without one, with the defaults."""
        return self.instance_of(key, self.whole_state(key, state, version))

    def whole_state(self, key: str, state: Mapping[str, Raw] | None, version: int | None) -> State:
        """What is stored, as the class of today has it: every field, not decoded."""
        found: State = {**self.defaults}
        if state is not None and version is not None and version != self.version:
            state = self._upgraded(key, state, version)
        for field, raw in (state or {}).items():
            if field not in self.types:
                raise EntityStateUnread(f"{self.name} {key!r} is stored with a field {field!r}")
            found[field] = raw
        return found

    def instance_of(self, key: str, found: State) -> E:
        made = object.__new__(self.cls)
        made.__dict__.update({field: load(raw, self.types[field]) for field, raw in found.items()}, key=key)
        return made

    def state_of(self, instance: E, before: Mapping[str, Raw]) -> State:
        """The state of an instance as it is stored. Raises where it could not be read back."""
        values = vars(instance)
        state: State = {}
        for field, type_ in self.types.items():
            if field not in values:
                raise BadEntity(f"The field {field!r} of {self.name} was deleted")
            raw = dump(values[field])
            old = before.get(field)
            if old is None or bytes(old) != raw:
                load(raw, type_)
            state[field] = Raw(raw)
        for name in values.keys() - self.types.keys() - {"key"}:
            raise BadEntity(f"{self.name} has no field {name!r}: declare it in the class, with a default")
        return state

    def _upgraded(self, key: str, state: Mapping[str, Raw], version: int) -> State:
        if version > self.version:
            raise EntityStateUnread(
                f"{self.name} {key!r} is stored by version {version}, newer than this code"
            )
        upgrade: Callable[[dict[str, Any], int], dict[str, Any]] | None = getattr(self.cls, "upgrade", None)
        if upgrade is None:
            return dict(state)
        return {
            name: Raw(dump(value))
            for name, value in upgrade({name: load(raw) for name, raw in state.items()}, version).items()
        }

    def _default(self, field: str) -> Raw:
        made = _factories(self.cls).get(field)
        if made is None and not hasattr(self.cls, field):
            raise BadEntity(f"The field {field!r} of {self.cls.__name__} has no default")
        raw = dump(getattr(self.cls, field) if made is None else made())
        load(raw, self.types[field])
        return Raw(raw)

    def check_call(self, method: str) -> Callable[..., Any]:
        if method not in self.calls:
            raise self.no_call(method)
        return self.calls[method]

    def no_call(self, method: str) -> EntityMisused:
        if callable(getattr(self.cls, method, None)):
            return EntityMisused(
                f"{self.name}.{method} is a plain method, for the entity's own use: a call is an "
                "`async def`, and a method that only reads is marked with @hf.read"
            )
        return EntityMisused(f"{self.name} has no call {method!r}")

    def returns(self, method: str) -> Any:
        return signature_of(self.calls[method]).returns


def _awaited(method: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(method):
        return method

    @wraps(method)
    async def at_once(*args: Any, **kwargs: Any) -> Any:
        return method(*args, **kwargs)

    return at_once


def _is_plain_dataclass(cls: type[Any]) -> bool:
    """Then its `__init__` is not somebody's own: it sets the fields."""
    made = vars(cls).get("__dataclass_params__")
    return made is not None and made.init and not made.frozen and "__slots__" not in vars(cls)


def _factories(cls: type[Any]) -> dict[str, Callable[[], Any]]:
    """What makes the defaults of fields that have no value in the class."""
    found = fields(cls) if is_dataclass(cls) else ()
    return {each.name: each.default_factory for each in found if each.default_factory is not MISSING}


def _fields(cls: type[Any]) -> dict[str, Any]:
    hints = get_type_hints(cls, include_extras=True)
    found = {
        name: hint
        for name, hint in hints.items()
        if get_origin(hint) is not ClassVar and hint is not ClassVar
    }
    if found.get("key") is str and issubclass(cls, Entity):
        del found["key"]
    for name in _reserved:
        if name in found:
            raise BadEntity(f"The field {name!r} of {cls.__name__} has a name that is reserved for entities")
    return found


def declare(cls: type[E], entity: EntityClass[E], stub: type[Any]) -> None:
    """From now on `cls(key)` gives a reference, whose calls go to the instance."""

    def new(made: type[Any], key: str) -> Any:
        reference = object.__new__(stub)
        reference.__dict__["key"] = key
        return reference

    def init(self: Any, key: str) -> None:
        pass

    new.__qualname__ = cls.__name__  # as Python names it where the key is missing
    declared: Any = cls
    declared.__new__ = new
    declared.__init__ = init
    setattr(cls, _declared, entity)


def entity_of(cls: type[E]) -> EntityClass[E]:
    found = vars(cls).get(_declared) if isinstance(cast(Any, cls), type) else None
    if found is None:
        raise EntityMisused(
            f"{getattr(cls, '__name__', cls)!r} is not an entity: decorate it with @app.entity"
        )
    return cast("EntityClass[E]", found)
