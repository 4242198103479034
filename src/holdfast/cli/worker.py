"""`holdfast worker module:app`: runs the workflows and tasks of an App until it is told to stop.

On SIGTERM or SIGINT it claims nothing more, lets what runs finish for a while, releases the rest, and leaves
with exit code 0. What finishes meanwhile keeps its result. A second signal ends it at once; leases lapse, and
others take over.
"""

import argparse
import asyncio
import gc
import importlib
import logging
import os
import signal
import sys
from typing import Final

from msgspec.structs import replace

from holdfast.app import App
from holdfast.cli.failures import UsageError
from holdfast.cli.log_lines import write_lines
from holdfast.host.slots import TaskSettings
from holdfast.node.process_loop import on_stop_signals, run_on_fast_loop
from holdfast.protocol.durations import duration_ms
from holdfast.protocol.text import hide_password

log = logging.getLogger("holdfast.worker")

collect_after_allocations: Final = 20_000


def configure(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_run)
    parser.add_argument("app", metavar="MODULE:APP", help="where the App is: shop.orders:app")
    parser.add_argument("-S", "--url", help="the node or store to work for (the App's own, or HOLDFAST_URL)")
    parser.add_argument(
        "-c", "--concurrency", type=int, metavar="N", help="how many executions and tasks it runs at once"
    )
    parser.add_argument(
        "-Q", "--queues", metavar="A,B", help="the queues whose tasks it runs (those of the App's tasks)"
    )
    parser.add_argument(
        "--processes",
        type=int,
        metavar="N",
        help="how many tasks it runs in child processes at once (one a core)",
    )
    parser.add_argument(
        "--prefetch", type=int, metavar="N", help="tasks claimed ahead of the slots that run them (0)"
    )
    parser.add_argument(
        "--drain", metavar="DURATION", help="how long running tasks may take to finish when it stops (60s)"
    )
    parser.add_argument("-g", "--group", help="the group whose tasks it claims")
    parser.add_argument(
        "--grace",
        metavar="DURATION",
        default="10s",
        help="how long running steps may take to finish (%(default)s)",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="log warnings only")


def _run(arguments: argparse.Namespace) -> int:
    write_lines(logging.WARNING if arguments.quiet else logging.INFO)
    app = find_app(arguments.app)
    app.settings = replace(
        app.settings,
        worker=True,
        url=arguments.url or app.settings.url,
        concurrency=_at_least(1, "concurrency", arguments.concurrency, app.settings.concurrency),
        group=arguments.group or app.settings.group,
        grace_s=duration_ms(arguments.grace) / 1000,
        tasks=_task_settings(arguments, app.settings.tasks),
    )
    return run(app)


def run(app: App) -> int:
    """Work in a process that does nothing else."""
    gc.freeze()  # what is loaded stays: no need to look at it again and again
    gc.set_threshold(collect_after_allocations, 20, 50)
    return run_on_fast_loop(work(app))


def _task_settings(arguments: argparse.Namespace, own: TaskSettings) -> TaskSettings:
    queues = own.queues
    if arguments.queues is not None:
        queues = tuple(name.strip() for name in arguments.queues.split(",") if name.strip())
        if not queues:
            raise UsageError("--queues names no queue: write them with commas in between")
    return TaskSettings(
        queues=queues,
        concurrency=_at_least(1, "concurrency", arguments.concurrency, own.concurrency),
        processes=_at_least(1, "processes", arguments.processes, own.processes),
        prefetch=_at_least(0, "prefetch", arguments.prefetch, own.prefetch),
        drain_s=own.drain_s if arguments.drain is None else duration_ms(arguments.drain) / 1000,
    )


def _at_least(least: int, name: str, given: int | None, otherwise: int) -> int:
    if given is not None and given < least:
        raise UsageError(f"--{name} must be at least {least}, not {given}")
    return otherwise if given is None else given


async def work(app: App) -> int:
    stop = asyncio.Event()

    def told(number: signal.Signals) -> None:
        if stop.is_set():
            os._exit(128 + number)
        log.info("%s: taking no new work, finishing what runs", number.name)
        stop.set()

    on_stop_signals(told)
    async with app:
        names = ", ".join(sorted({workflow.name for workflow in app.registry})) or "none"
        where = hide_password(app.settings.url)
        log.info("working for group %s at %s; workflows: %s", app.settings.group, where, names)
        if app.session.queues:
            log.info("running the background tasks of these queues: %s", ", ".join(app.session.queues))
        await stop.wait()
    log.info("stopped")
    return 0


def find_app(where: str) -> App:
    """The App that a text like `shop.orders:app` names."""
    name, separator, path = where.partition(":")
    if not separator or not name or not path:
        raise UsageError(f"{where!r} names no app: write MODULE:APP, as in shop.orders:app")
    sys.path.insert(0, str(os.getcwd()))  # noqa: PTH109
    try:
        found: object = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise  # the module is there; what it imports is not
        raise UsageError(f"there is no module {name!r} in {os.getcwd()} or on the path") from None  # noqa: PTH109
    for part in path.split("."):
        if not hasattr(found, part):
            raise UsageError(f"module {name!r} has no {path!r}{_hint(name)}")
        found = getattr(found, part)
    if not isinstance(found, App):
        raise UsageError(f"{where} is a {type(found).__name__}, not a holdfast App{_hint(name)}")
    return found


def _hint(module: str) -> str:
    apps = [key for key, value in vars(sys.modules[module]).items() if isinstance(value, App)]
    return f"; did you mean {module}:{apps[0]}?" if apps else ""
