"""`holdfast replay FILE... MODULE:APP`: the code of today against the histories of executions.

Exit code 0 when it would do what was recorded, 1 when it would not. Nothing is performed, nothing is written.
"""

import argparse
import asyncio
from pathlib import Path

from holdfast.cli.failures import REFUSED, UsageError
from holdfast.cli.output import print_json, print_line
from holdfast.cli.worker import find_app
from holdfast.testing.history_replay import Replayed, replay_history


def configure(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_run)
    parser.add_argument("files", nargs="+", metavar="FILE", help="what `holdfast history` has written")
    parser.add_argument("app", metavar="MODULE:APP", help="where the App is: shop.orders:app")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _run(arguments: argparse.Namespace) -> int:
    app = find_app(arguments.app)
    found: list[Replayed] = []
    for name in arguments.files:
        try:
            text = Path(name).read_bytes()
        except OSError as error:
            raise UsageError(f"{name} cannot be read: {error.strerror}") from None
        found.append(asyncio.run(replay_history(text, app)))
    if arguments.json:
        print_json(found)
    else:
        for each in found:
            same = f"the code does what was recorded ({each.records} records)"
            print_line(f"{each.id}: {each.difference or same}")
    return REFUSED if any(each.difference for each in found) else 0
