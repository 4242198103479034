"""The options that describe the call of a function: `--func F --arg 1 --arg two`."""

import argparse
from typing import Any, Protocol

import msgspec

from holdfast.cli.failures import UsageError
from holdfast.cli.options import pair
from holdfast.cli.payloads import parse_given
from holdfast.protocol.plain_json import plain_call
from holdfast.protocol.records import Value


class _Options(Protocol):
    def add_argument(self, *names: str, **rest: Any) -> argparse.Action: ...


def add_call(options: _Options, *, required: bool) -> None:
    options.add_argument("--func", metavar="NAME", required=required, help="the function")
    add_arguments(options)
    options.add_argument("--version", type=int, default=1, help="the version of the function (1)")


def add_arguments(options: _Options) -> None:
    options.add_argument(
        "--arg",
        dest="args",
        metavar="JSON",
        action="append",
        default=[],
        help="an argument; JSON, anything else is a string",
    )
    options.add_argument("--json-args", metavar="JSON", help="all arguments at once, as a JSON array")
    add_named_arguments(options, "a named argument, for functions in Python")


def add_named_arguments(options: _Options, about: str) -> None:
    options.add_argument(
        "--kwarg", dest="kwargs", metavar="K=JSON", type=pair, action="append", default=[], help=about
    )


def has_arguments(arguments: argparse.Namespace) -> bool:
    """Was any given?"""
    return bool(arguments.args or arguments.kwargs or arguments.json_args is not None)


def call_param(arguments: argparse.Namespace, headers: dict[str, str] | None = None) -> Value:
    """What a worker needs to know to call the function."""
    args, kwargs = call_arguments(arguments)
    return plain_call(arguments.func, args, kwargs, arguments.version, headers)


def call_arguments(arguments: argparse.Namespace) -> tuple[tuple[Any, ...], dict[str, Any]]:
    named = {name: parse_given(text) for name, text in arguments.kwargs}
    return tuple(_positional(arguments)), named


def _positional(arguments: argparse.Namespace) -> list[Any]:
    if arguments.json_args is None:
        return [parse_given(text) for text in arguments.args]
    if arguments.args:
        raise UsageError("--arg and --json-args cannot both be given")
    return read_array("--json-args", arguments.json_args)


def read_array(option: str, text: str) -> list[Any]:
    try:
        return msgspec.json.decode(text, type=list[Any])
    except msgspec.DecodeError as error:
        raise UsageError(f"{option} must be an array in JSON: {error}") from None
