"""What an execution sends: everything it changes is fenced by its claim.

1. Every write goes through `task.fence`: a worker that lost its lease can write nothing. Only requests to
   cancel others are not its own, and may be repeated by anybody.
2. What is asked together with a write is carried out after it.
3. Once the claim is lost nothing more is asked.
4. A creation that the node refuses is among the `refused`: it has not happened, and the code must be told.
   So is one whose id somebody else has used: what is there is not ours, and is not learnt.
"""

from collections.abc import Callable, Sequence
from typing import Final

from holdfast.client.caller import Caller, ask, is_whole
from holdfast.client.interface import Client
from holdfast.payloads.errors import NotRecorded, WorkerError
from holdfast.protocol.ids import below
from holdfast.protocol.records import Promise
from holdfast.protocol.replies import FenceReply, PromiseReply, Reply
from holdfast.protocol.requests import (
    AppendAction,
    CreateAction,
    PromiseCreate,
    RequestData,
    TagAction,
    TaskFence,
    TaskRestart,
)
from holdfast.protocol.requests.tasks import FencedAction
from holdfast.workflow.errors import ClaimGone, IdTaken
from holdfast.workflow.journal import LABEL
from holdfast.workflow.operations import NAMED, Action, Asked

request_count_max: Final = 500  # in one commit
refusals: Final = (400, 403, 413, 422)


class FencedWriter:
    def __init__(
        self,
        client: Client,
        task_id: str,
        version: int,
        learn: Callable[[Promise], None],
        replied: Callable[[str, Reply], None] | None = None,
    ) -> None:
        """`replied` is given the replies to what an operation has asked, and its id."""
        self.version = version
        self.generation: int | None = None  # None: the first
        self.is_lost = False
        self.is_last = False  # with what is written now, the execution is over
        self.refused: list[tuple[str, WorkerError]] = []  # ids of creations, and why
        self._caller = Caller(client, together_max=request_count_max, check=self._check_held)
        self._id = task_id
        self.learn = learn
        self.replied = replied
        # Leave before anything else: a generation has ended here, and the node does not know that yet.
        self.leading: list[RequestData] = []

    def restart(self, actions: Sequence[Action], restart: TaskRestart) -> None:
        """The generation is over. These are its last writes, and what follows is the next one's: both leave
        with the first write of that one, in one commit, or with the first thing that it asks."""
        self.leading = [*map(self._fenced, actions), restart]
        self.generation = restart.generation + 1

    def let_go(self) -> None:
        """Nothing more is written: cut what leads back here."""
        self._caller = self._caller.unchecked()
        self.learn, self.replied = _forget, None

    async def catch_up(self) -> None:
        """Tell the node that a generation has ended."""
        if self.leading:
            await self.ask([])

    async def write(self, actions: Sequence[Action], asked: Sequence[RequestData] = ()) -> list[Reply]:
        """In one commit: these actions, fenced; then what is asked, whose replies are returned."""
        data = [*map(self._fenced, actions), *asked]
        if self.leading or not data:
            replies = await self.ask(data)
        else:  # what the caller does, without a coroutine in between: every step waits here
            requests = [*map(ask, data)]
            replies = await self._caller.begin(requests)
            if not is_whole(requests, replies):
                replies = await self._caller.go_on(requests, replies)
        for action, reply in zip(actions, replies, strict=False):
            created = _created(action, reply)
            if created is not None:
                self.learn(created)
            elif isinstance(action, Asked):
                assert self.replied is not None
                self.replied(action.promise_id, self._unfenced(action.request, reply))
            elif not isinstance(action, RequestData):
                self._read(action, self._unfenced(action, reply))
        return replies[len(actions) :]

    async def ask(self, asked: Sequence[RequestData]) -> list[Reply]:
        """In one commit; when it is too much for one in several, and none is there before an earlier one."""
        leading, self.leading = self.leading, []
        replies = await self._caller.replies([*leading, *asked])
        if leading and replies[len(leading) - 1].status != 200:
            raise ClaimGone(f"{self._id}: {replies[len(leading) - 1].data}")
        return replies[len(leading) :]

    def take_refused(self) -> list[tuple[str, WorkerError]]:
        refused, self.refused = self.refused, []
        return refused

    def _fenced(self, action: Action) -> RequestData:
        if type(action) is CreateAction:
            return TaskFence(self._id, self.version, action, self.generation)
        if isinstance(action, Asked):
            action = action.request
        return (
            action
            if isinstance(action, RequestData)
            else TaskFence(self._id, self.version, action, self.generation)
        )

    def _unfenced(self, action: Action, reply: Reply) -> Reply:
        """The reply to the action inside the fence."""
        if isinstance(reply.data, FenceReply):
            inner = reply.data.action
            return Reply(inner.head.status, inner.data, inner.head.code)
        if not isinstance(action, RequestData) and reply.status not in refusals:
            raise ClaimGone(f"{self._id}: {reply.data}")
        return reply

    def _refuse(self, name: str, what: str) -> None:
        """Nobody waits for it. While the execution goes on, that ends this try; afterwards it is logged."""
        if not self.is_last:
            raise NotRecorded(what)
        self.refused.append((name, NotRecorded(what)))

    def _read(self, action: FencedAction, reply: Reply) -> None:
        inner = reply.data
        if isinstance(inner, PromiseReply):
            if isinstance(action, CreateAction) and is_foreign(action.data, inner.promise):
                taken = IdTaken(f"The id {action.data.id!r} was used by somebody else")
                self.refused.append((action.data.id, taken))
            else:
                self.learn(inner.promise)
        elif isinstance(action, TagAction) and reply.status != 200:
            self._refuse(self._id, f"The node refused the tags {', '.join(action.data.tags)}: {inner}")
        elif isinstance(action, AppendAction) and reply.status != 200:
            what = f"The node refused what was emitted to {action.data.stream}: {inner}"
            self._refuse(f"{below(self._id)}{action.data.stream}", what)
        elif isinstance(action, CreateAction):  # of a cancellation: there was nothing to cancel
            refused = NotRecorded(f"The node refused {action.data.id}: {inner}")
            self.refused.append((action.data.id, refused))

    def _check_held(self) -> None:
        if self.is_lost:
            raise ClaimGone(self._id)


def _created(action: Action, reply: Reply) -> Promise | None:
    """What was created just as it was asked for, as nearly always. Else the reply has to be read."""
    if type(action) is CreateAction and type(reply.data) is FenceReply:
        found = reply.data.action.data
        if type(found) is PromiseReply and found.promise.param is action.data.param:
            return found.promise
    return None


def _forget(promise: Promise) -> None:
    """Nobody drives the execution any more."""


def is_foreign(creation: PromiseCreate, found: Promise) -> bool:
    """Was it created by somebody else, who knows nothing of our operations? One with a name may be."""
    ours = (creation.param.headers or {}).get(LABEL)
    if ours is not None and ours.startswith(NAMED):
        return False
    return ours is not None and (found.param.headers or {}).get(LABEL) != ours
