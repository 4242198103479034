"""Libraries that come with an extra: loaded when asked for, with a sentence if they are not there."""

from importlib import import_module
from typing import Any

from holdfast.protocol.errors import Explained


class MissingLibrary(Explained, ImportError):
    """A library that an adapter needs is not installed."""

    code = "HF7201"
    hint = "Install the package that the sentence names."


def load(module: str, extra: str | None = None) -> Any:
    """The module. Untyped: an installation without it is checked too. Without an extra it is what users of
    an adapter have anyway: their web framework."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        wanted = package if extra is None else f"'holdfast[{extra}]'"
        raise MissingLibrary(f"{package} is not installed: pip install {wanted}") from error
