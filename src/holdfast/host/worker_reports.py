"""Tells the node what this worker is and what it knows to run, and carries out the order to drain.

1. It is for people. A node that cannot be told (an older one, one that refuses) is a line in the log, once;
   the work goes on.
2. The declarations leave when the node asks for them, which is once for all workers of the same code.
3. A drained worker claims nothing and gives back what it has not begun. What runs goes on to its end.
"""

import asyncio
import hashlib
import logging
import os
import platform
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from holdfast.client.interface import TellsOfWorkers
from holdfast.host.host import Host
from holdfast.jobs.registry import TaskRegistry
from holdfast.node.end_tasks import end_tasks
from holdfast.payloads.schemas import first_line, parameters_schema, returns_schema
from holdfast.payloads.signature import signature_of
from holdfast.protocol.workers import Declaration, Declared, WorkerReport, declared_bytes_max, told_s
from holdfast.steps.providers import Providers
from holdfast.workflow.registry import Registry

log = logging.getLogger("holdfast.worker")

final_report_s_max: Final = 2.0
code_version_variable: Final = "HOLDFAST_CODE_VERSION"


class WorkerReporter:
    def __init__(
        self,
        client: TellsOfWorkers,
        host: Host,
        pid: str,
        group: str,
        registry: Registry,
        tasks: TaskRegistry,
        providers: Providers,
        queues: Callable[[], list[str]],
        now: Callable[[], int],
    ) -> None:
        self._client = client
        self._host = host
        self._registry = registry
        self._tasks = tasks
        self._providers = providers
        self._queues = queues
        self._now = now
        self._known: tuple[tuple[Any, ...], list[Declaration], str] | None = None
        self._is_failing = False
        self._reporting: asyncio.Task[None] | None = None
        self._is_due = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        from holdfast import __version__  # the package is complete by now

        self._about = WorkerReport(
            pid,
            group,
            now(),
            host=socket.gethostname(),
            pid=os.getpid(),
            python=platform.python_version(),
            holdfast=__version__,
            code_version=os.environ.get(code_version_variable, "")[:64],
        )

    def start(self) -> None:
        self._tasks.watchers.append(self._declared)
        self._reporting = asyncio.create_task(self._keep_reporting())

    async def stop(self) -> None:
        """Say that it ends, if the node listens."""
        if self._reporting is None:
            return
        if self._declared in self._tasks.watchers:
            self._tasks.watchers.remove(self._declared)
        await end_tasks([self._reporting])
        self._reporting = None
        if not self._is_failing:
            with suppress(Exception):
                async with asyncio.timeout(final_report_s_max):
                    await self._client.tell_of_worker(replace(self._report(), is_stopped=True))

    async def abandon(self) -> None:
        await end_tasks([self._reporting])
        self._reporting = None

    def _declared(self) -> None:
        """On any thread: something was declared."""
        self._loop.call_soon_threadsafe(self._is_due.set)

    async def _keep_reporting(self) -> None:
        while True:
            try:
                await self._tell()
                self._is_failing = False
            except Exception as error:
                if not self._is_failing:
                    log.warning("this worker cannot be registered at the node; it keeps trying: %s", error)
                self._is_failing = True
            self._is_due.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(told_s):
                    await self._is_due.wait()

    async def _tell(self) -> None:
        report = self._report()
        orders = await self._client.tell_of_worker(report)
        if orders.wanted:
            assert self._known is not None
            orders = await self._client.tell_of_worker(replace(report, declarations=self._known[1]))
        if orders.drain != self._host.is_draining:
            log.info("drain requested" if orders.drain else "drain ended: taking tasks again")
            self._host.drain(on=orders.drain)
            await self._client.tell_of_worker(self._report())

    def _report(self) -> WorkerReport:
        _, _, digest = self._declarations()
        return replace(
            self._about,
            declared=digest,
            queues=sorted(self._queues()),
            slots=self._host.slots_in_use(),
            held=self._host.held_count,
        )

    def _declarations(self) -> tuple[tuple[Any, ...], list[Declaration], str]:
        """Made again when there are others."""
        workflows, tasks = [*self._registry], [*self._tasks]
        functions = tuple(each.function for each in (*workflows, *tasks))
        if self._known is None or self._known[0] != functions:
            found = [*_of_workflows(workflows, self._about.group, self._providers)]
            found += _of_tasks(tasks, self._providers)
            declared = _fitting(found)
            digest = hashlib.sha256(msgspec.json.encode(declared)).hexdigest()[:32]
            self._known = functions, declared, digest
        return self._known


def _of_workflows(workflows: Iterable[Any], group: str, providers: Providers) -> Iterator[Declaration]:
    for each in workflows:
        yield _declaration("workflow", each.name, each.version, each.function, providers, each.group or group)


def _of_tasks(tasks: Iterable[Any], providers: Providers) -> Iterator[Declaration]:
    for each in tasks:
        yield _declaration("task", each.name, 1, each.function, providers, None, each.queue)


def _declaration(
    kind: Declared,
    name: str,
    version: int,
    function: Callable[..., Any],
    providers: Providers,
    group: str | None = None,
    queue: str | None = None,
) -> Declaration:
    parameters, positional = parameters_schema(signature_of(function), providers.wanted_by(function))
    about, returns = first_line(function), returns_schema(function)
    return Declaration(kind, name, version, group, queue, about, parameters, positional, returns)


def _fitting(declared: list[Declaration]) -> list[Declaration]:
    """If all of them are too large, names alone; and of those as many as fit."""
    if len(msgspec.json.encode(declared)) <= declared_bytes_max:
        return declared
    bare = [replace(each, parameters={}, returns={}) for each in declared]
    size, kept = 2, 0
    for each in bare:
        size += len(msgspec.json.encode(each)) + 1
        kept += size <= declared_bytes_max
    return bare[:kept]
