"""JSON schemas of what a function takes and gives, and of what a workflow waits for: for forms and for curl.

A schema is for people and tools. What counts is the function's own signature, which checks the arguments when
they are read.

1. A type that has no schema, or a very large one, is `{}`: any JSON.
2. A schema carries its definitions with it (`$defs`), so it can be read alone.
3. What the application provides (`app.provide`) is no argument, and is left out.
"""

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, cast

import msgspec

from holdfast.payloads.signature import CallParameter, Signature, signature_of

schema_bytes_max: Final = 32_768
about_chars_max: Final = 200

Schema = dict[str, Any]

_Kind = inspect.Parameter
_MANY: Final = {_Kind.VAR_POSITIONAL: "array", _Kind.VAR_KEYWORD: "object"}


def schema_of(type_: Any) -> Schema:
    """Of one type, with its definitions."""
    schemas, definitions = _schemas([type_])
    return _bounded(schemas[0] | ({"$defs": definitions} if definitions else {}))


def cached_schema_of(type_: Any) -> Schema:
    try:
        return _cached(type_)
    except TypeError:  # not hashable
        return schema_of(type_)


@lru_cache(maxsize=1_000)
def _cached(type_: Any) -> Schema:
    return schema_of(type_)


def parameters_schema(signature: Signature, supplied: Iterable[str] = ()) -> tuple[Schema, list[str]]:
    """An object with a property for each argument; and which of them may be given by position, in order."""
    left_out = set(supplied)
    wanted = [each for each in signature.parameters or () if each.name not in left_out]
    schemas, definitions = _schemas([each.type for each in wanted])
    properties: Schema = {}
    for parameter, schema in zip(wanted, schemas, strict=True):
        properties[parameter.name] = _of_parameter(parameter, schema)
    found: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    if required := [each.name for each in wanted if each.required and each.kind not in _MANY]:
        found["required"] = required
    if any(each.kind is _Kind.VAR_KEYWORD for each in wanted) or signature.parameters is None:
        found["additionalProperties"] = True
    if definitions:
        found["$defs"] = definitions
    by_position = (_Kind.POSITIONAL_ONLY, _Kind.POSITIONAL_OR_KEYWORD)
    return _bounded(found), [each.name for each in wanted if each.kind in by_position]


def first_line(function: Callable[..., Any]) -> str:
    """Of its docstring."""
    text = inspect.getdoc(function) or ""
    return text.strip().partition("\n")[0][:about_chars_max]


def returns_schema(function: Callable[..., Any]) -> Schema:
    signature = signature_of(function)
    return {"type": "null"} if signature.gives_none else schema_of(signature.returns)


def _of_parameter(parameter: CallParameter, schema: Schema) -> Schema:
    if parameter.kind is _Kind.VAR_POSITIONAL:
        return {"type": "array", "items": schema}
    if parameter.kind is _Kind.VAR_KEYWORD:
        return {"type": "object", "additionalProperties": schema}
    if parameter.required:
        return schema
    try:
        return schema | {"default": msgspec.to_builtins(parameter.default)}
    except (TypeError, ValueError):  # it is no JSON: it stays the function's own affair
        return schema


def _schemas(types: Sequence[Any]) -> tuple[list[Schema], Schema]:
    """All at once, so that they share definitions; one by one if one of them has none."""
    try:
        return _components(types)
    except Exception:
        schemas: list[Schema] = []
        definitions: Schema = {}
        for type_ in types:
            try:
                [schema], own = _components([type_])
            except Exception:
                schema, own = {}, {}
            schemas.append(schema)
            definitions |= own
        return schemas, definitions


def _components(types: Sequence[Any]) -> tuple[list[Schema], Schema]:
    found, definitions = msgspec.json.schema_components(
        types, schema_hook=_of_foreign_type, ref_template="#/$defs/{name}"
    )
    return [dict(each) for each in found], {name: dict(each) for name, each in definitions.items()}


def _of_foreign_type(type_: Any) -> Schema:
    """Of a type that describes itself, as pydantic's models do."""
    describe = getattr(type_, "model_json_schema", None)
    if describe is None:
        raise NotImplementedError(type_)
    return cast(Schema, describe(ref_template="#/$defs/{model}"))


def _bounded(schema: Schema) -> Schema:
    return schema if len(msgspec.json.encode(schema)) <= schema_bytes_max else {}
