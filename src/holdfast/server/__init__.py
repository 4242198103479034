"""The HTTP server, for workers in any language.

What needs the extra `server` is loaded when it is asked for: settings can be read without it.
"""

import importlib
from typing import TYPE_CHECKING, Any

from holdfast.server.errors import MissingExtra
from holdfast.server.settings import SETTINGS, Setting, Settings, load_settings

if TYPE_CHECKING:
    from holdfast.server.serving import running, serve, serving_management

__all__ = ["SETTINGS", "Setting", "Settings", "load_settings", "running", "serve", "serving_management"]


def __getattr__(name: str) -> Any:
    if name not in ("running", "serve", "serving_management"):
        raise AttributeError(f"holdfast.server has no {name!r}")
    try:
        serving = importlib.import_module("holdfast.server.serving")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("holdfast"):
            raise
        raise MissingExtra("A server", "server", error.name) from None
    found = globals()[name] = getattr(serving, name)
    return found
