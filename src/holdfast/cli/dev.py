"""`holdfast dev`: `holdfast serve` with nothing to keep and everything to see."""

import argparse

from holdfast.cli import serve


def configure(parser: argparse.ArgumentParser) -> None:
    serve.configure(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    return serve.run_server({"store": "memory:", "debug": True} | serve.given(arguments), arguments.config)
