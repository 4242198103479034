"""What each of `holdfast tasks ...` does."""

import argparse

from holdfast.cli.failures import UsageError
from holdfast.cli.output import (
    print_done,
    print_json,
    print_line,
    print_more,
    print_promise,
    print_task,
    print_tasks,
)
from holdfast.cli.promises import creation, settlement
from holdfast.cli.session import CliSession
from holdfast.client import expect
from holdfast.protocol.records import TaskRef
from holdfast.protocol.replies import (
    AcquireReply,
    ClaimReply,
    Empty,
    FenceReply,
    HeartbeatReply,
    PreloadReply,
    PromiseReply,
    Reply,
    TaskCreateReply,
    TaskReply,
    TasksReply,
)
from holdfast.protocol.requests import (
    CreateAction,
    PromiseRegisterCallback,
    RegisterAction,
    ReleaseRetry,
    RequestData,
    SettleAction,
    TaskAcquire,
    TaskClaim,
    TaskCreate,
    TaskFence,
    TaskFulfill,
    TaskGet,
    TaskHalt,
    TaskHeartbeat,
    TaskRelease,
    TaskSearch,
    TaskStart,
    TaskSuspend,
)


async def get(session: CliSession, arguments: argparse.Namespace) -> None:
    await _show_task(session, arguments, TaskGet(arguments.id))


async def start(session: CliSession, arguments: argparse.Namespace) -> None:
    await _show_task(session, arguments, TaskStart(arguments.id, arguments.version))


async def _show_task(session: CliSession, arguments: argparse.Namespace, data: RequestData) -> None:
    reply = await session.ask(data, TaskReply)
    if arguments.json:
        print_json(reply)
    else:
        print_task(reply.task)


async def create(session: CliSession, arguments: argparse.Namespace) -> None:
    action = CreateAction(await creation(session, arguments, arguments.id))
    reply = await session.ask(TaskCreate(arguments.pid, arguments.ttl, action), TaskCreateReply)
    if arguments.json:
        print_json(reply)
    elif reply.task is not None:
        print_task(reply.task)


async def acquire(session: CliSession, arguments: argparse.Namespace) -> None:
    acquire = TaskAcquire(arguments.id, arguments.version, arguments.pid, arguments.ttl)
    reply = await session.ask(acquire, AcquireReply)
    if arguments.json:
        print_json(reply)
    else:
        _print_acquired(reply)


async def claim(session: CliSession, arguments: argparse.Namespace) -> None:
    claim = TaskClaim(arguments.groups, arguments.count, arguments.pid, arguments.ttl)
    reply = await session.ask(claim, ClaimReply)
    if arguments.json:
        print_json(reply)
    elif reply.tasks:
        print_tasks([acquired.task for acquired in reply.tasks])
    else:
        print_line("Nothing waits there.")


def _print_acquired(reply: AcquireReply) -> None:
    print_task(reply.task)
    print_line()
    print_line("promise")
    print_promise(reply.promise)
    if reply.preload:
        print_line()
        print_line(f"and {len(reply.preload)} more promises of its branch (--json shows them)")


async def fence(session: CliSession, arguments: argparse.Namespace) -> None:
    action: CreateAction | SettleAction
    if arguments.create:
        action = CreateAction(await creation(session, arguments, arguments.create))
    else:
        action = SettleAction(settlement(arguments, arguments.settle, arguments.state))
    reply = await session.ask(TaskFence(arguments.id, arguments.version, action), FenceReply)
    if arguments.json:
        print_json(reply)
    else:
        inside = Reply(reply.action.head.status, reply.action.data, reply.action.head.code)
        print_promise(expect(inside, PromiseReply).promise)


async def heartbeat(session: CliSession, arguments: argparse.Namespace) -> None:
    refs = [_parse_ref(text) for text in arguments.refs]
    reply = await session.ask(TaskHeartbeat(arguments.pid, refs), HeartbeatReply)
    if arguments.json:
        print_json(reply)
    for ref in () if arguments.json else reply.lost or ():
        print_line(f"lost: {ref.id}@{ref.version}")


def _parse_ref(text: str) -> TaskRef:
    task_id, separator, version = text.rpartition("@")
    if not separator or not version.isdecimal():
        raise UsageError(f"{text!r} is not of the form ID@VERSION")
    return TaskRef(task_id, int(version))


async def suspend(session: CliSession, arguments: argparse.Namespace) -> None:
    actions = [
        RegisterAction("promise.register_callback", PromiseRegisterCallback(awaited, arguments.id))
        for awaited in arguments.awaited
    ]
    reply = await session.reply(TaskSuspend(arguments.id, arguments.version, actions))
    if reply.status == 300:
        found = expect(reply, PreloadReply)
        if arguments.json:
            print_json(found)
        else:
            print_line("Not suspended: one of them has settled already, so the task is still yours.")
        return
    expect(reply, Empty)
    print_done(arguments.json)


async def fulfill(session: CliSession, arguments: argparse.Namespace) -> None:
    action = SettleAction(settlement(arguments, arguments.id, arguments.state))
    reply = await session.ask(TaskFulfill(arguments.id, arguments.version, action), PromiseReply)
    if arguments.json:
        print_json(reply)
    else:
        print_promise(reply.promise)


async def release(session: CliSession, arguments: argparse.Namespace) -> None:
    retry = None
    if arguments.retry_delay is not None or arguments.error is not None:
        retry = ReleaseRetry(arguments.retry_delay or 0, arguments.error)
    await session.do(TaskRelease(arguments.id, arguments.version, retry))
    print_done(arguments.json)


async def halt(session: CliSession, arguments: argparse.Namespace) -> None:
    await session.do(TaskHalt(arguments.id, arguments.version, arguments.reason, arguments.code))
    print_done(arguments.json)


async def search(session: CliSession, arguments: argparse.Namespace) -> None:
    search = TaskSearch(
        arguments.state,
        arguments.target,
        arguments.group,
        arguments.pid,
        dict(arguments.tags) or None,
        arguments.prefix,
        arguments.page,
        arguments.cursor,
    )
    pages = await session.pages(search, TasksReply, every=arguments.all)
    found = TasksReply([task for page in pages for task in page.tasks], pages[-1].cursor)
    if arguments.json:
        print_json(found)
    else:
        print_tasks(found.tasks)
        print_more(found.cursor)
