"""One story that touches every kind of request, told at one instant so that every node answers the same."""

from msgspec.structs import replace

from holdfast.client import ask
from holdfast.protocol.jobs import Rate
from holdfast.protocol.records import TaskRef, Value
from holdfast.protocol.requests import (
    AppendAction,
    CreateAction,
    DebugReset,
    DebugSnap,
    DebugStart,
    DebugStop,
    DebugTick,
    ExecutionCount,
    ExecutionGet,
    ExecutionSearch,
    NextAction,
    PromiseCreate,
    PromiseGet,
    PromiseRegisterCallback,
    PromiseRegisterListener,
    PromiseSearch,
    PromiseSettle,
    QueueGet,
    QueuePause,
    QueueSearch,
    QueueSet,
    RegisterAction,
    ReleaseRetry,
    Request,
    RequestData,
    ScheduleCreate,
    ScheduleDelete,
    ScheduleGet,
    ScheduleSearch,
    SettleAction,
    StreamAnswer,
    StreamAppend,
    StreamList,
    StreamNext,
    StreamRead,
    TaskAcquire,
    TaskCancel,
    TaskClaim,
    TaskContinue,
    TaskCreate,
    TaskFail,
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

late = 9_000_000
target = {"resonate:target": "poll://any@group"}


def job(spec: str) -> dict[str, str]:
    return {"resonate:target": "poll://any@queue.mail", "holdfast:job": spec}


STORY: list[RequestData] = [
    DebugStart(),
    DebugReset(),
    PromiseCreate("p", late, Value({"h": "1"}, "eA=="), {"k": "v"}, "key"),
    PromiseGet("p"),
    PromiseGet("missing"),
    PromiseRegisterListener("p", "poll://uni@group/me"),
    PromiseCreate("wf", late, Value(), {**target, "resonate:branch": "wf"}),
    TaskGet("wf"),
    TaskAcquire("wf", 0, "me", 60_000),
    TaskStart("wf", 1),
    TaskHeartbeat("me", [TaskRef("wf", 1), TaskRef("gone", 7)]),
    TaskFence("wf", 1, CreateAction(PromiseCreate("wf:1", late, Value(), {"resonate:branch": "wf"}))),
    TaskFence("wf", 1, SettleAction(PromiseSettle("wf:1", "resolved", Value(None, "MQ==")))),
    TaskFence("wf", 1, SettleAction(PromiseSettle("nowhere", "resolved"))),
    TaskFence("wf", 9, SettleAction(PromiseSettle("wf:1", "resolved"))),
    TaskSuspend(
        "wf", 1, [RegisterAction("promise.register_callback", PromiseRegisterCallback("wf:1", "wf"))]
    ),
    TaskSuspend("wf", 1, [RegisterAction("promise.register_callback", PromiseRegisterCallback("p", "wf"))]),
    PromiseRegisterCallback("p", "wf"),
    PromiseSettle("p", "rejected", Value(None, "bm8="), "key"),
    TaskClaim(["group"], 5, "me", 60_000),
    TaskRelease("wf", 2, ReleaseRetry(1_000, "not now")),
    TaskHalt("wf"),
    TaskContinue("wf", 2),
    TaskAcquire("wf", 2, "me", 60_000),
    TaskFulfill("wf", 3, SettleAction(PromiseSettle("wf", "resolved", Value(None, "NDI=")))),
    TaskCreate("me", 60_000, CreateAction(PromiseCreate("own", late, Value(), dict(target)))),
    PromiseSearch(tags={"resonate:branch": "wf"}, limit=1),
    PromiseSearch(state="pending", prefix="w"),
    TaskSearch(state="acquired", pid="me", group="group"),
    ScheduleCreate(
        "s", "0 9 * * 1", "s-{{.timestamp}}", 1_000, Value(None, "eA=="), dict(target), "Europe/Paris"
    ),
    ScheduleGet("s"),
    ScheduleSearch(prefix="s"),
    ScheduleDelete("s"),
    ScheduleDelete("s"),
    TaskAcquire("own", 1, "me", 60_000),
    StreamAppend(
        "own",
        "in",
        Value({"h": "1"}, "eA=="),
        "key",
        StreamAnswer(late),
        {"resonate:target": "poll://any@group"},
    ),
    StreamAppend("own", "in", key="key"),
    StreamAppend("own", "in", expect={"other": "x"}),
    StreamAppend("nobody", "in"),
    StreamNext("own", "in", 2),
    TaskFence("own", 1, AppendAction(StreamAppend("own", "out.log", Value(None, "eA==")))),
    TaskFence("own", 1, NextAction(StreamNext("own", "in", 2))),
    TaskFence("own", 1, AppendAction(StreamAppend("wf", "out.log"))),
    StreamRead("own", "out.log", 0, 10),
    StreamRead("own", "in", last=True),
    StreamList("own"),
    QueueSet("mail", 2, 1, Rate(10, 1_000), Rate(5, 1_000)),
    PromiseCreate(
        "job", late, Value(None, "eA=="), job('{"retry":{"delays":[50]},"key":"k","goodUntil":8000}')
    ),
    PromiseCreate("job2", late, Value(), job('{"unique":"u"}')),
    PromiseCreate("job3", late, Value(), job('{"unique":"u","onUnique":"reject"}')),
    TaskClaim(["queue.mail"], 5, "me", 60_000, True, 0),
    TaskFail("job", 1, "BROKEN", Value({"holdfast-code": "BROKEN"}), 70),
    TaskFail("job2", 1, "BROKEN"),
    TaskCancel("job", True),
    TaskCancel("job2"),
    TaskGet("job"),
    QueuePause("mail", True),
    QueueGet("mail"),
    QueueSearch(prefix="m", limit=5),
    ExecutionGet("job"),
    ExecutionGet("none"),
    ExecutionSearch(kind="task", status=["failed", "cancelled"], limit=1),
    ExecutionSearch(tags={"no": "such"}, since=1, until=9_000, cursor="8000/x"),
    ExecutionCount(queue="mail"),
    DebugTick(5_000),
    DebugSnap(),
    DebugStop(),
]


def story() -> list[Request]:
    return [replace(ask(data), debug_time=5_000) for data in STORY]
