"""`holdfast dev`: `holdfast serve` with an in-memory store and verbose logs."""

import argparse
from typing import Final

from holdfast.cli import serve

DEFAULTS: Final = {"store": "memory:", "debug": True}


def configure(parser: argparse.ArgumentParser) -> None:
    serve.configure(parser, **DEFAULTS)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    return serve.run_server(DEFAULTS | serve.given(arguments), arguments.config)
