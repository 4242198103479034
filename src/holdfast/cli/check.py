"""`holdfast check MODULE:APP`: everything that is wrong with an App, at once, without running it.

Exit code 0 when nothing was found, 1 otherwise. Each finding has a place, a code and a line that says what to
do about it.
"""

import argparse
import sys
import traceback

from holdfast.app import App
from holdfast.cli.failures import REFUSED, UsageError
from holdfast.cli.output import print_json, print_line
from holdfast.cli.worker import find_app
from holdfast.jobs.checking import ImportFailed, check
from holdfast.payloads.findings import Finding, collecting, finding
from holdfast.protocol.errors import HoldfastError


def configure(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_run)
    parser.add_argument("app", metavar="MODULE:APP", help="where the App is: shop.orders:app")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _run(arguments: argparse.Namespace) -> int:
    found = inspect_app(arguments.app)
    if arguments.json:
        print_json(found)
    else:
        for each in found:
            print_line(f"{each.where}: {each.what}. [{each.code}]")
            print_line(f"    help: {each.help}")
        print_line(f"{len(found)} to correct" if found else "nothing to correct")
    return REFUSED if found else 0


def inspect_app(where: str) -> list[Finding]:
    app: App | None = None
    with collecting() as found:
        try:
            app = find_app(where)
        except UsageError:
            raise
        except Exception as error:
            found.append(_import_failure(error))
    if app is not None:
        found += check(app.registry, app.tasks, app.payloads, app.settings.group, app.providers)
    return sorted(dict.fromkeys(found), key=lambda each: (each.file or "", each.line or 0, each.code))


def _import_failure(error: Exception) -> Finding:
    """At the last line that is neither ours nor Python's: where the user's code was."""
    frames = traceback.extract_tb(error.__traceback__)
    package = __file__.rpartition("/cli/")[0]
    theirs = [
        frame
        for frame in frames
        if not frame.filename.startswith((package, "<frozen", sys.base_prefix + "/lib"))
    ]
    file, line = (theirs[-1].filename, theirs[-1].lineno) if theirs else (None, None)
    if isinstance(error, HoldfastError):
        return finding(error, file, line)
    return finding(ImportFailed(f"{type(error).__name__}: {error}".rstrip(".")), file, line)
