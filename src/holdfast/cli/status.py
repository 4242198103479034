"""`holdfast status`: is a node well, and how much does it hold."""

import argparse
import asyncio
import time
from typing import Any, Final

from holdfast.cli.failures import NO_ANSWER
from holdfast.cli.options import add_connection
from holdfast.cli.output import print_block, print_json
from holdfast.cli.promises import states as promise_states
from holdfast.cli.session import Session, open_client, server_urls
from holdfast.cli.tasks import states as task_states
from holdfast.client.connection import Connection
from holdfast.client.endpoints import parse_endpoint
from holdfast.client.errors import Unreachable
from holdfast.protocol.limits import page_size_max
from holdfast.protocol.replies import PromisesReply, SchedulesReply, TasksReply
from holdfast.protocol.requests import PromiseSearch, ScheduleSearch, TaskSearch

count_max: Final = page_size_max  # counting goes through a search, so it is bounded like one


def configure(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_run)
    add_connection(parser)


def _run(arguments: argparse.Namespace) -> int:
    found = asyncio.run(_look(arguments))
    if arguments.json:
        print_json(found)
    else:
        print_block((name, _shown(entry)) for name, entry in found.items())
    return 0 if found["ready"] else NO_ANSWER


async def _look(arguments: argparse.Namespace) -> dict[str, Any]:
    url = server_urls(arguments.server)[0]
    found: dict[str, Any] = {
        "server": url,
        "healthy": await _answers(url, "/health", arguments),
        "ready": await _answers(url, "/ready", arguments),
    }
    if not found["ready"]:
        return found
    async with open_client(arguments) as client:
        session = Session(client)
        before = time.perf_counter()
        await session.ask(PromiseSearch(limit=1), PromisesReply)
        found["roundTripMs"] = round((time.perf_counter() - before) * 1000, 1)
        found["promises"] = {state: await _count_promises(session, state) for state in promise_states}
        found["tasks"] = {state: await _count_tasks(session, state) for state in task_states}
        schedules = await session.ask(ScheduleSearch(limit=count_max), SchedulesReply)
        found["schedules"] = _counted(len(schedules.schedules), schedules.cursor)
    return found


async def _answers(url: str, path: str, arguments: argparse.Namespace) -> bool:
    endpoint = parse_endpoint(url)
    try:
        async with asyncio.timeout(arguments.limit_ms / 1000):
            connection = await Connection.open(endpoint, arguments.token, None)
            response = await connection.get(path)
            await connection.close()
    except OSError as error:
        raise Unreachable(f"{endpoint} could not be reached: {error or 'it took too long'}") from error
    return response.status == 200


async def _count_promises(session: Session, state: Any) -> int | str:
    found = await session.ask(PromiseSearch(state=state, limit=count_max), PromisesReply)
    return _counted(len(found.promises), found.cursor)


async def _count_tasks(session: Session, state: Any) -> int | str:
    found = await session.ask(TaskSearch(state=state, limit=count_max), TasksReply)
    return _counted(len(found.tasks), found.cursor)


def _counted(count: int, cursor: str | None) -> int | str:
    return count if cursor is None else f"{count} or more"


def _shown(entry: Any) -> str:
    match entry:
        case bool():
            return "yes" if entry else "no"
        case dict():
            return ", ".join(f"{count} {name}" for name, count in entry.items() if count) or "none"  # pyright: ignore[reportUnknownVariableType]
        case _:
            return str(entry)
