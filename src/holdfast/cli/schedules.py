"""`holdfast schedules ...`"""

import argparse

from holdfast.cli.calls import add_call, call_param
from holdfast.cli.failures import UsageError
from holdfast.cli.options import add_paging, add_payload, add_tags, creation_tags, duration
from holdfast.cli.output import print_done, print_json, print_more, print_schedule, print_schedules
from holdfast.cli.payloads import payload
from holdfast.cli.session import CliSession, add_command
from holdfast.protocol.records import Value
from holdfast.protocol.replies import ScheduleReply, SchedulesReply
from holdfast.protocol.requests import ScheduleCreate, ScheduleDelete, ScheduleGet, ScheduleSearch


def configure(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    add_command(commands, "get", "show a schedule", _get).add_argument("id")
    add_command(commands, "delete", "delete a schedule", _delete).add_argument("id")

    create = add_command(commands, "create", "create promises again and again", _create)
    create.add_argument("id")
    create.add_argument("--cron", required=True, help="when: five fields, or six with seconds in front")
    create.add_argument(
        "--promise-id",
        metavar="TEMPLATE",
        default="{{.id}}-{{.timestamp}}",
        help="the id of each promise (%(default)s)",
    )
    create.add_argument(
        "--timeout", metavar="DURATION", type=duration, default=3_600_000, help="until each deadline (1h)"
    )
    add_payload(create, "param of each promise")
    add_call(create.add_argument_group("a function to call instead of --data"), required=False)
    add_tags(create, "a tag of each promise")
    create.add_argument("--target", metavar="ADDRESS", help="who shall work on them")
    create.add_argument("--timezone", help="an IANA name like Europe/Paris (UTC)")
    create.add_argument("--overlap", choices=("allow", "skip", "replace"), help="when the last still runs")
    create.add_argument("--catch-up", metavar="N", type=int, help="make up for at most so many missed runs")

    search = add_command(commands, "search", "list schedules, by id", _search)
    add_paging(search)


async def _get(session: CliSession, arguments: argparse.Namespace) -> None:
    _show(await session.ask(ScheduleGet(arguments.id), ScheduleReply), arguments)


def _show(reply: ScheduleReply, arguments: argparse.Namespace) -> None:
    if arguments.json:
        print_json(reply)
    else:
        print_schedule(reply.schedule)


async def _create(session: CliSession, arguments: argparse.Namespace) -> None:
    create = ScheduleCreate(
        arguments.id,
        arguments.cron,
        arguments.promise_id,
        arguments.timeout,
        _param(arguments),
        creation_tags(arguments),
        arguments.timezone,
        arguments.overlap,
        arguments.catch_up,
    )
    _show(await session.ask(create, ScheduleReply), arguments)


def _param(arguments: argparse.Namespace) -> Value:
    headers = dict(arguments.headers)
    if not arguments.func:
        return payload(arguments.data, arguments.raw_data, headers)
    if arguments.data is not None or arguments.raw_data is not None:
        raise UsageError("--func makes the param, so --data and --raw-data have no place beside it")
    return call_param(arguments, headers)


async def _delete(session: CliSession, arguments: argparse.Namespace) -> None:
    await session.do(ScheduleDelete(arguments.id))
    print_done(arguments.json)


async def _search(session: CliSession, arguments: argparse.Namespace) -> None:
    search = ScheduleSearch(dict(arguments.tags) or None, arguments.prefix, arguments.page, arguments.cursor)
    pages = await session.pages(search, SchedulesReply, every=arguments.all)
    found = SchedulesReply([schedule for page in pages for schedule in page.schedules], pages[-1].cursor)
    if arguments.json:
        print_json(found)
    else:
        print_schedules(found.schedules)
        print_more(found.cursor)
