"""`holdfast schedules ...`"""

import argparse
from collections.abc import Collection
from typing import Final

from holdfast.cli.calls import add_arguments, add_call, call_arguments, call_param, has_arguments
from holdfast.cli.failures import UsageError
from holdfast.cli.options import (
    add_paging,
    add_payload,
    add_tags,
    creation_tags,
    duration,
    instant,
    instant_help,
)
from holdfast.cli.output import (
    print_done,
    print_json,
    print_line,
    print_more,
    print_schedule,
    print_schedules,
)
from holdfast.cli.payloads import payload
from holdfast.cli.session import CliSession, add_command
from holdfast.cli.task_schedules import add_task_options, check_no_task_options, task_schedule
from holdfast.cli.worker import find_app
from holdfast.jobs.errors import ScheduleExists
from holdfast.jobs.schedules import is_same
from holdfast.payloads.payloads import Payloads
from holdfast.protocol import tags
from holdfast.protocol.jobs import check_queue
from holdfast.protocol.plain_json import plain_call
from holdfast.protocol.records import Value
from holdfast.protocol.replies import BackfillReply, PromiseReply, ScheduleReply, SchedulesReply
from holdfast.protocol.requests import (
    ScheduleBackfill,
    ScheduleCreate,
    ScheduleDelete,
    ScheduleGet,
    SchedulePause,
    ScheduleSearch,
    ScheduleTrigger,
    ScheduleUpdate,
)

_timeout_ms: Final = 3_600_000
_promise_ids: Final = "{{.id}}-{{.timestamp}}"
_cron_help: Final = "when: five fields, or six with seconds in front, or @every 90s"


def configure(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    add_command(commands, "get", "show a schedule", _get).add_argument("id", help="the id of the schedule")
    add_command(commands, "delete", "delete a schedule", _delete).add_argument(
        "id", help="the id of the schedule"
    )

    create = add_command(
        commands, "create", "create a promise or a task at each occurrence of a cron expression", _create
    )
    create.add_argument("id", help="the id of the schedule")
    create.add_argument("--cron", required=True, help=_cron_help)
    create.add_argument(
        "--promise-id",
        metavar="TEMPLATE",
        help=f"the id of each promise ({_promise_ids})",
    )
    create.add_argument(
        "--timeout",
        metavar="DURATION",
        type=duration,
        help="time until the deadline of each (1h; of background tasks: none)",
    )
    add_payload(create, "param of each promise")
    add_call(create.add_argument_group("a function to call instead of --data"), required=False)
    add_task_options(create.add_argument_group("a background task instead of both, with --arg and the like"))
    add_tags(create, "a tag of each promise")
    create.add_argument("--target", metavar="ADDRESS", help="address of the workers that run them")
    create.add_argument("--queue", metavar="NAME", help="instead of --target: the queue in which they wait")
    create.add_argument("--limit-key", metavar="KEY", help="the key for the limits per key of the queue")
    create.add_argument("--priority", type=int, metavar="N", help="higher ones first (0)")
    _add_rhythm(create)

    update = add_command(commands, "update", "change a schedule; the rest stays as it is", _update)
    update.add_argument("id", help="the id of the schedule")
    update.add_argument("--cron", help=_cron_help)
    update.add_argument(
        "--timeout", metavar="DURATION", type=duration, help="time until the deadline of each run"
    )
    add_arguments(update)
    _add_rhythm(update)

    for name in ("list", "search"):
        search = add_command(commands, name, "list schedules, by id", _search)
        add_paging(search)
        search.add_argument("--app", metavar="MODULE:APP", help="show which ones this app no longer declares")

    pause = add_command(commands, "pause", "fire no more runs until it is resumed", _pause)
    pause.add_argument("id", help="the id of the schedule")
    pause.set_defaults(paused=True)
    resume = add_command(commands, "resume", "fire runs again, from now on", _pause)
    resume.add_argument("id", help="the id of the schedule")
    resume.set_defaults(paused=False)
    add_command(commands, "trigger", "start one run now", _trigger).add_argument(
        "id", help="the id of the schedule"
    )
    backfill = add_command(commands, "backfill", "start the runs of past occurrences", _backfill)
    backfill.add_argument("id", help="the id of the schedule")
    for name in ("since", "until"):
        backfill.add_argument(f"--{name}", type=instant, metavar="INSTANT", required=True, help=instant_help)


def _add_rhythm(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--timezone", help="an IANA name like Europe/Paris (UTC)")
    parser.add_argument(
        "--overlap", choices=("allow", "skip", "replace"), help="what to do if the last run is not over"
    )
    parser.add_argument(
        "--catch-up", metavar="N", type=int, help="after downtime, run at most this many missed occurrences"
    )


async def _get(session: CliSession, arguments: argparse.Namespace) -> None:
    _show(await session.ask(ScheduleGet(arguments.id), ScheduleReply), arguments)


def _show(reply: ScheduleReply, arguments: argparse.Namespace) -> None:
    if arguments.json:
        print_json(reply)
    else:
        print_schedule(reply.schedule)


async def _create(session: CliSession, arguments: argparse.Namespace) -> None:
    is_task = arguments.task is not None
    create = task_schedule(arguments) if is_task else _promise_schedule(arguments)
    reply = await session.ask(create, ScheduleReply)
    is_other_call = not is_task and reply.schedule.promise_param != create.promise_param
    if is_other_call or not is_same(create, reply.schedule):
        raise ScheduleExists(f"The schedule {arguments.id!r} already exists, with another definition")
    _show(reply, arguments)


def _promise_schedule(arguments: argparse.Namespace) -> ScheduleCreate:
    check_no_task_options(arguments)
    return ScheduleCreate(
        arguments.id,
        arguments.cron,
        arguments.promise_id or _promise_ids,
        _timeout_ms if arguments.timeout is None else arguments.timeout,
        _param(arguments),
        _tags(arguments),
        arguments.timezone,
        arguments.overlap,
        arguments.catch_up,
    )


def _tags(arguments: argparse.Namespace) -> dict[str, str]:
    found = creation_tags(arguments)
    if arguments.queue is not None:
        if arguments.target is not None:
            raise UsageError("--queue and --target both say which workers run it: give one of them")
        check_queue(arguments.queue)
        found |= tags.queued(arguments.queue, arguments.limit_key, "wait")
    elif arguments.limit_key is not None:
        raise UsageError("--limit-key is what the limits of a queue count by: give --queue, too")
    if arguments.priority:
        found[tags.PRIORITY] = str(arguments.priority)
    if arguments.func and tags.TARGET in found:
        found[tags.WORKFLOW] = arguments.func
    return found


async def _update(session: CliSession, arguments: argparse.Namespace) -> None:
    """Other arguments are for what it runs already."""
    param = entries = None
    if has_arguments(arguments):
        stored = (await session.ask(ScheduleGet(arguments.id), ScheduleReply)).schedule
        call = Payloads().decode_call(stored.promise_param)
        args, kwargs = call_arguments(arguments)
        param = plain_call(call.function, args, kwargs, call.version, stored.promise_param.headers)
        entries = {name: text for name, text in stored.promise_tags.items() if name != tags.FINGERPRINT}
    change = ScheduleUpdate(
        arguments.id,
        arguments.cron,
        None,
        arguments.timeout,
        param,
        entries,
        arguments.timezone,
        arguments.overlap,
        arguments.catch_up,
    )
    if change == ScheduleUpdate(arguments.id):
        raise UsageError("Say what is to change: --cron, --arg, --overlap or another option")
    _show(await session.ask(change, ScheduleReply), arguments)


def _param(arguments: argparse.Namespace) -> Value:
    headers = dict(arguments.headers)
    if not arguments.func:
        return payload(arguments.data, arguments.raw_data, headers)
    if arguments.data is not None or arguments.raw_data is not None:
        raise UsageError("--func makes the param: leave out --data and --raw-data")
    return call_param(arguments, headers)


async def _delete(session: CliSession, arguments: argparse.Namespace) -> None:
    await session.do(ScheduleDelete(arguments.id))
    print_done(arguments.json)


def _known_to(where: str | None) -> tuple[str, Collection[str]] | None:
    """The group of an app, and the schedules that it declares."""
    if where is None:
        return None
    app = find_app(where)
    return app.settings.group, app.tasks.recurrences.keys()


async def _pause(session: CliSession, arguments: argparse.Namespace) -> None:
    _show(await session.ask(SchedulePause(arguments.id, arguments.paused), ScheduleReply), arguments)


async def _trigger(session: CliSession, arguments: argparse.Namespace) -> None:
    reply = await session.ask(ScheduleTrigger(arguments.id), PromiseReply)
    if arguments.json:
        print_json(reply)
    else:
        print_line(reply.promise.id)


async def _backfill(session: CliSession, arguments: argparse.Namespace) -> None:
    """Some at a time: what was made before it is interrupted stays, and is not made again."""
    ids: list[str] = []
    since: int | None = arguments.since
    while since is not None:
        reply = await session.ask(ScheduleBackfill(arguments.id, since, arguments.until), BackfillReply)
        since = reply.next_at
        if arguments.json:
            ids += reply.ids
        else:
            for run in reply.ids:
                print_line(run)
    if arguments.json:
        print_json(BackfillReply(ids))


async def _search(session: CliSession, arguments: argparse.Namespace) -> None:
    search = ScheduleSearch(dict(arguments.tags) or None, arguments.prefix, arguments.page, arguments.cursor)
    pages = await session.pages(search, SchedulesReply, every=arguments.all)
    found = SchedulesReply([schedule for page in pages for schedule in page.schedules], pages[-1].cursor)
    if arguments.json:
        print_json(found)
    else:
        print_schedules(found.schedules, _known_to(arguments.app))
        print_more(found.cursor)
