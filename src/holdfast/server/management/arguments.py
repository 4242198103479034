"""Arguments of a start, compared with what a worker has declared: a mistake is told at once and by name.

It knows what our own schemas hold (payloads/schemas.py): types, enums, unions, references, objects, arrays.
What it does not know it lets pass: the function's own signature decides, when a worker reads it.
"""

from collections.abc import Iterator
from typing import Any, Final

from holdfast.server.errors import ArgumentsDoNotFit
from holdfast.server.management.call import Call, Json
from holdfast.server.management.workers import declaration_of

problems_max: Final = 20
depth_max: Final = 20

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list,),
    "object": (dict,),
}


async def check_arguments(
    call: Call, kind: str, name: str, version: int, args: list[Any], kwargs: Json
) -> None:
    """Raises `ArgumentsDoNotFit`. What nobody has declared is not checked."""
    declared = await declaration_of(call, kind, name, version)
    if declared is None or not declared["parameters"]:
        return
    found = [*problems(declared, args, kwargs)][:problems_max]
    if found:
        raise ArgumentsDoNotFit(f"The arguments do not fit {name}: {'; '.join(found)}")


def problems(declared: Json, args: list[Any], kwargs: Json) -> Iterator[str]:
    schema, positional = declared["parameters"], declared["positional"]
    known: Json = schema.get("properties", {})
    rest = next((each for each in known if _is_rest(each, known, positional, schema)), None)
    if len(args) > len(positional) and rest is None:
        yield f"{len(args)} arguments by position, and it takes {len(positional)}"
    given = dict(zip(positional, args, strict=False))
    for name in kwargs:
        if name in given:
            yield f"{name} is given twice"
    given |= kwargs
    for name in schema.get("required", ()):
        if name not in given:
            yield f"{name} is missing"
    for name, value in given.items():
        if name in known:
            yield from _differences(name, value, known[name], schema.get("$defs", {}), 0)
        elif not schema.get("additionalProperties"):
            yield f"there is no argument {name[:80]!r}"


def _is_rest(name: str, known: Json, positional: list[str], schema: Json) -> bool:
    """Those that follow by position (`*names`)."""
    return (
        name not in positional
        and name not in schema.get("required", ())
        and known[name].get("type") == "array"
    )


def _differences(path: str, value: Any, schema: Json, definitions: Json, depth: int) -> Iterator[str]:
    if depth > depth_max:
        return
    if "$ref" in schema:
        schema = definitions.get(str(schema["$ref"]).rpartition("/")[2], {})
    if "anyOf" in schema:
        if all(any(_differences(path, value, each, definitions, depth + 1)) for each in schema["anyOf"]):
            yield f"{path} is not one of the allowed values"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path} must be one of {', '.join(map(str, schema['enum'][:10]))}"
        return
    wanted = schema.get("type")
    if wanted in _TYPES and not _is(value, wanted):
        yield f"{path} must be of type {wanted}, not {_name_of(value)}"
        return
    if isinstance(value, dict):
        fields: Json = value  # pyright: ignore[reportUnknownVariableType]
        for name in schema.get("required", ()):
            if name not in fields:
                yield f"{path}.{name} is missing"
        for name, each in schema.get("properties", {}).items():
            if name in fields:
                yield from _differences(f"{path}.{name}", fields[name], each, definitions, depth + 1)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        items: list[Any] = value  # pyright: ignore[reportUnknownVariableType]
        for number, each in enumerate(items[:1_000]):
            yield from _differences(f"{path}[{number}]", each, schema["items"], definitions, depth + 1)


def _is(value: Any, wanted: str) -> bool:
    if isinstance(value, bool):
        return wanted == "boolean"
    if wanted == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[wanted])


def _name_of(value: Any) -> str:
    return next(name for name, types in _TYPES.items() if type(value) in types)
