"""What `import holdfast as hf` offers, name by name. A change of it is meant, so it changes public_names.txt.

To write that file anew: `python -m tests.test_public_names`.
"""

import enum
import importlib
import inspect
import pkgutil
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import holdfast as hf
from holdfast.ext.optional import MissingLibrary

SNAPSHOT = Path(__file__).with_name("public_names.txt")
NAMES_MAX = 65  # three of them modules
# Raised by a server, its console or `holdfast check`, or answered by an endpoint. What a node answers by the
# protocol a program meets as `Refused`, or as the error that stands for it.
INTERNAL = tuple(
    f"holdfast.{part}" for part in ("server", "cli", "testing", "protocol", "jobs.checking", "ext.web_errors")
)


def names() -> list[str]:
    return [name for name in dir(hf) if not name.startswith("_")]


def lines() -> list[str]:
    found: list[str] = []
    for name in names():
        value = getattr(hf, name)
        if value is hf.types:
            found += [
                line
                for each in sorted(value.__all__)
                for line in _shown(f"types.{each}", getattr(value, each))
            ]
        elif isinstance(value, ModuleType):
            found += [f"{name}.{each}" for each in sorted(value.__all__)]
        else:
            found += _shown(name, value)
    return found


def _shown(name: str, value: Any) -> list[str]:
    if isinstance(value, type):
        is_enum = issubclass(value, enum.Enum)  # how it is called differs with the version of Python
        return [f"class {name}{'' if is_enum else _signature(value)}", *_members(name, value)]
    return [f"{name}{_signature(value)}"]


def _members(name: str, cls: type[Any]) -> list[str]:
    if issubclass(cls, enum.Enum):
        return [f"  {name}.{each.name}" for each in cls]
    own = [base for base in cls.__mro__ if base.__module__.startswith("holdfast.")]
    found: dict[str, Any] = {}
    for base in reversed(own):
        found |= {key: value for key, value in vars(base).items() if not key.startswith("_")}
    return [
        f"  {name}.{key}{_signature(getattr(value, '__func__', value))}"
        for key, value in sorted(found.items())
        if callable(getattr(value, "__func__", value)) or isinstance(value, property)
    ]


def _signature(value: Any) -> str:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    bare = [each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values()]
    shown = inspect.Signature([each for each in bare if each.name != "self"])
    return str(shown)


def test_the_public_names_and_their_signatures_change_only_on_purpose() -> None:
    expected = SNAPSHOT.read_text("utf-8").splitlines()
    assert lines() == expected, "meant? then: python -m tests.test_public_names"


def test_a_star_import_gives_the_public_names_and_nothing_else() -> None:
    given: dict[str, object] = {}
    exec("from holdfast import *", given)  # as a user may write it
    assert {name for name in given if not name.startswith("__")} == {*names()}


def test_there_are_few_enough_public_names_to_know_them() -> None:
    assert len(names()) <= NAMES_MAX


@pytest.mark.parametrize("name", ["Handle", "Refused", "SendCode"])
def test_a_name_that_is_in_another_module_is_pointed_to(name: str) -> None:
    with pytest.raises(AttributeError, match=r"it is in holdfast\.(types|errors|codes)"):
        getattr(hf, name)
    with pytest.raises(AttributeError, match=r"has no 'Nonsense'$"):
        hf.Nonsense  # noqa: B018


def test_every_error_that_a_program_can_meet_is_in_errors() -> None:
    for module in pkgutil.walk_packages(hf.__path__, "holdfast."):
        if not module.name.startswith(INTERNAL) and not module.name.endswith("__main__"):
            with suppress(MissingLibrary):  # the library that it adapts is only in another environment
                importlib.import_module(module.name)
    missing = {
        cls.__name__
        for cls in _errors_below(hf.HoldfastError)
        if cls.__module__.startswith("holdfast.") and not cls.__module__.startswith(INTERNAL)
    } - {*hf.errors.__all__}
    assert not missing
    assert {"StepCalledOff", "FiberExited", "ForeignAwait", "ExecutionClosed"} <= {*hf.errors.__all__}


def _errors_below(cls: type[BaseException]) -> set[type[BaseException]]:
    return {cls}.union(*(_errors_below(each) for each in cls.__subclasses__()))


if __name__ == "__main__":
    SNAPSHOT.write_text("".join(f"{line}\n" for line in lines()), "utf-8")
