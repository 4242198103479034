"""`holdfast serve`: a node behind HTTP, until it is told to stop."""

import argparse
import os
from typing import Any

from holdfast.cli.failures import UsageError
from holdfast.server.errors import SettingsError
from holdfast.server.settings import SETTINGS, Setting, load_settings


def configure(parser: argparse.ArgumentParser, **instead: object) -> None:
    """`instead`: what a command has as its default instead of the setting's own."""
    parser.set_defaults(run=_run)
    parser.usage = f"{parser.prog} [--host HOST] [--port PORT] [--store URL] [--debug] ..."
    parser.epilog = (
        "Each setting is also HOLDFAST_<NAME> in the environment and a line under [server] in holdfast.toml."
    )
    parser.add_argument("--config", metavar="FILE", help="read this file instead of ./holdfast.toml")
    for setting in SETTINGS:
        add_setting(parser, setting, instead.get(setting.name, setting.default))


def add_setting(parser: argparse.ArgumentParser, setting: Setting, default: object) -> None:
    text = f"{setting.help}{_default(setting, default)}".replace("%", "%%")
    if setting.type is bool:
        parser.add_argument(
            setting.flag, dest=setting.name, action=argparse.BooleanOptionalAction, default=None, help=text
        )
    elif setting.is_list:
        parser.add_argument(
            setting.flag, dest=setting.name, metavar="A,B,...", action="append", default=None, help=text
        )
    else:
        parser.add_argument(setting.flag, dest=setting.name, metavar="VALUE", default=None, help=text)


def _default(setting: Setting, default: Any) -> str:
    if isinstance(default, bool) or default in ("", ()):
        return " (on)" if default is True else ""
    shown = ",".join(map(str, default)) if setting.is_list else default
    return f" ({shown})"


def _run(arguments: argparse.Namespace) -> int:
    return run_server(given(arguments), arguments.config)


def given(arguments: argparse.Namespace) -> dict[str, Any]:
    """The flags that were written. A list may be written as one text, as several flags, or both."""
    flags: dict[str, Any] = {}
    for setting in SETTINGS:
        value = getattr(arguments, setting.name)
        if value is not None:
            flags[setting.name] = ",".join(value) if setting.is_list else value
    return flags


def run_server(flags: dict[str, Any], config: str | None) -> int:
    try:
        from holdfast.server import serve  # the extra `server`: `--help` does without

        serve(load_settings(flags, os.environ, config))
    except SettingsError as error:
        raise UsageError(str(error)) from None
    return 0
