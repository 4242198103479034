"""`manage.py holdfast worker`, `manage.py holdfast console`: the command line, with the App of this project.

It runs in the process that Django has set up, so workflows find models and settings. Everything behind the
first word is handed on: `manage.py holdfast worker --concurrency 50`. Commands that take no App work, too:
`manage.py holdfast list --status failed` asks the node that the App asks.
"""

import runpy
import sys
from argparse import REMAINDER
from typing import Any, Final

from holdfast.ext.django.project import get_app
from holdfast.ext.optional import load

_BaseCommand: Any = load("django.core.management.base").BaseCommand

WITH_APP: Final = ("worker", "check", "replay")  # their first argument is MODULE:APP


class Command(_BaseCommand):  # type: ignore[misc]
    help = "Run a worker of this project's app, open its console, or any other command of `holdfast`."

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument(
            "words", nargs=REMAINDER, metavar="COMMAND ...", help="worker, console, list, ..."
        )

    def handle(self, *_: Any, words: list[str], **options: Any) -> None:
        """As `python -m holdfast` in this process, which leaves with its exit code."""
        sys.argv = ["holdfast", *self._completed(words)]
        runpy.run_module("holdfast", run_name="__main__", alter_sys=True)

    def _completed(self, words: list[str]) -> list[str]:
        app = get_app()
        if not words:
            return words
        command, *rest = words
        if command in WITH_APP:
            return [command, load("django.conf").settings.HOLDFAST_APP, *rest]
        is_told = any(word.split("=")[0] in ("-S", "--server", "-h", "--help") for word in rest)
        return [command, *rest] if is_told else [command, "--server", app.settings.url, *rest]
