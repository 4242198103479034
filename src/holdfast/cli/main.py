"""The entry point: finds the command, runs it, and turns what went wrong into a sentence and an exit code.

Exit codes: 0 done, 1 the node refused, 2 the command line is wrong, 3 no answer from a node, 130 interrupted.
Each command lives in a module that is imported only when it is used, so that every one of them starts fast.
"""

import argparse
import importlib
import io
import sys
from collections.abc import Iterable, Sequence
from typing import Final, NoReturn, TextIO

from holdfast.cli.examples import EXAMPLES, sentence, shown
from holdfast.protocol.text import printable

COMMANDS: Final = {
    "serve": "run a node behind HTTP",
    "dev": "run a node in memory and in debug mode: nothing is kept",
    "worker": "run the workflows and tasks of an App",
    "demo": "watch an order survive kill -9",
    "invoke": "start an execution",
    "promises": "show, create and settle promises",
    "tasks": "show, send, claim and control tasks",
    "queues": "show, pause and limit the queues of background tasks",
    "locks": "show the locks that executions share, and release one by force",
    "check": "find mistakes in the declarations of an App",
    "schedules": "show, create and delete schedules",
    "list": "find executions and background tasks, newest first",
    "info": "show what an execution is doing, and what it waits for",
    "tree": "draw the call tree of an execution",
    "history": "export an execution as JSON",
    "replay": "run the current code against exported executions",
    "cancel": "ask an execution to cancel itself",
    "retry": "continue an execution from where it failed",
    "fork": "start a new execution from a step of another one",
    "bulk": "cancel, retry, halt, resume or fork all that a filter finds",
    "tell": "send a message to an execution",
    "event": "send an event: it wakes every execution that waits for it",
    "events": "list the events of a name, newest first",
    "ask": "send a message to an execution and wait for its answer",
    "watch": "follow what an execution publishes, emits and receives",
    "status": "show whether a node is healthy",
    "top": "watch executions live in the terminal",
    "console": "open the web console on a store",
    "mcp": "let a model inspect executions, over MCP",
    "audit": "show who changed what through the management API",
    "gc": "delete executions that ended long ago",
}


class Parser(argparse.ArgumentParser):
    """Its errors quote the command line, which a script may have taken from others, and a nearer option."""

    def error(self, message: str) -> NoReturn:
        super().error(printable(f"{message}{self._nearest(message)}"))

    def _nearest(self, message: str) -> str:
        start, _, rest = message.partition("unrecognized arguments: ")
        if start or not rest.startswith("--"):
            return ""
        given = rest.split()[0].partition("=")[0]
        return _did_you_mean(given, self._option_string_actions)


def main(argv: Sequence[str] | None = None) -> int:
    words = [*(sys.argv[1:] if argv is None else argv)]
    _show_everything(sys.stdout)
    if not words or words[0] not in COMMANDS:
        return _parse_overview(words)
    return _run(parser_of(words[0]).parse_args(words[1:]))


def parser_of(command: str) -> Parser:
    """The options of a command. Its module is imported here and not before: that is what costs time."""
    parser = Parser(
        f"holdfast {command}",
        description=sentence(COMMANDS[command]),
        epilog=shown(command),
        formatter_class=argparse.RawDescriptionHelpFormatter
        if command in EXAMPLES
        else argparse.HelpFormatter,
    )
    importlib.import_module(f"holdfast.cli.{command}").configure(parser)
    return parser


def _show_everything(stream: TextIO) -> None:
    """What an old code page cannot show is shown as its code."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")


def _parse_overview(words: list[str]) -> int:
    """Everything in front of a command: help, version, or a name that is none."""
    lines = "\n".join(f"  {name:<10} {line}" for name, line in COMMANDS.items())
    parser = Parser(
        "holdfast",
        usage="holdfast COMMAND ...",
        description="Durable execution for Python.",
        epilog=f"commands:\n{lines}\n\n`holdfast COMMAND --help` explains each of them.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    parser.add_argument("command", nargs="?", metavar="COMMAND", help="one of those below")
    arguments = parser.parse_args(words[:1])
    if arguments.version:
        from holdfast import __version__

        sys.stdout.write(f"holdfast {__version__}\n")
        return 0
    if arguments.command:
        nearest = _did_you_mean(arguments.command, COMMANDS) or f"; there are {', '.join(COMMANDS)}"
        parser.error(f"there is no command {arguments.command!r}{nearest}")
    parser.print_help()
    return 0


def _run(arguments: argparse.Namespace) -> int:
    from holdfast.cli.failures import report, show_defect

    sys.excepthook = show_defect
    try:
        result: int = arguments.run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read our output has seen enough
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        return report(error, as_json=getattr(arguments, "json", False))
    return result


def _did_you_mean(given: str, names: Iterable[str]) -> str:
    from difflib import get_close_matches  # only where something is wrong: it takes time to import

    nearest = get_close_matches(given, names, 1)
    return f"; did you mean {nearest[0]}?" if nearest else ""
