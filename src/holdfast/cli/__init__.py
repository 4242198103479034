"""The console: `holdfast serve`, `holdfast promises get ...`, `holdfast tree ...`."""

from holdfast.cli.main import main

__all__ = ["main"]
