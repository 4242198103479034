"""Calls of workflows under an id that the code chooses: `hf.call(child.with_options(id="order-17"), ...)`.

Such an execution stands by itself, exactly as if it had been started from outside: it is found under its id,
it is not part of the caller's tree, and others may wait for it too.

1. The same workflow with the same arguments under the id is one execution, whoever has started it. Anything
   else under the id is `IdTaken`, raised where the code calls.
2. Its outcome is recorded with the caller: a replay does not need the other.
3. When the caller no longer wants the result, it is asked to cancel itself, if this call has started it.
   `cancel(now=True)` of the caller ends it then. That finds it by who waits for it, so the caller is
   registered as soon as it is there, not only when the caller suspends.
"""

from typing import TYPE_CHECKING, Any

from holdfast.payloads.errors import NotRecorded
from holdfast.payloads.signature import signature_of
from holdfast.protocol import tags
from holdfast.protocol.records import Promise
from holdfast.protocol.replies import PromiseReply, Reply
from holdfast.protocol.requests import CreateAction, PromiseCreate, PromiseRegisterCallback, Settle
from holdfast.steps.hooks import with_headers
from holdfast.workflow.errors import IdTaken
from holdfast.workflow.operations import Action, Asked, CallOperation, outcome_of
from holdfast.workflow.same_call import check_same_call

if TYPE_CHECKING:
    from holdfast.workflow.progress import Progress
    from holdfast.workflow.recording import Recorder


class NamedCall(CallOperation):
    """`is_new`: an execution that others have started is not taken for this call's."""

    copies = True
    is_seen_unwritten = True

    def __init__(self, execution_id: str, *given: Any, is_new: bool, **options: Any) -> None:
        super().__init__(*given, **options)
        self.awaits = execution_id
        self._is_new = is_new
        self.is_ours = False

    def create(self, promise_id: str, recorder: "Recorder") -> list[Action]:  # type: ignore[override]
        assert self.awaits is not None
        begun = Asked(promise_id, CreateAction(self._creation(promise_id, recorder)))
        return [begun, PromiseRegisterCallback(self.awaits, recorder.root)] if self.waits else [begun]

    def _creation(self, promise_id: str, recorder: "Recorder") -> PromiseCreate:
        assert self.awaits is not None
        deadline, grace = self.deadline(recorder)
        lineage = {tags.ORIGIN: self.awaits, tags.BRANCH: self.awaits, tags.PARENT: self.awaits}
        entries = {**self.tags, **lineage, tags.SCOPE: "global", tags.CALLER: promise_id, **grace}
        param = with_headers(self.encoded(recorder), self.headers)
        return PromiseCreate(self.awaits, deadline, param, entries | self.route(recorder))

    def replied(self, promise_id: str, reply: Reply, progress: "Progress") -> None:
        if not isinstance(reply.data, PromiseReply):
            refused = NotRecorded(f"The node refused {self.awaits}: {reply.data}")
            progress.complete(promise_id, refused)
            return
        found = reply.data.promise
        self.is_ours = found.tags.get(tags.CALLER) == promise_id
        try:
            self._check(found, progress.recorder)
        except IdTaken as taken:
            progress.complete(promise_id, taken)
        else:
            progress.learn(found)

    def _check(self, found: Promise, recorder: "Recorder") -> None:
        if self._is_new and not self.is_ours:
            raise IdTaken(f"The id {found.id!r} is taken")
        signature = None if self.function is None else signature_of(self.function)
        supplied: frozenset[str] = frozenset()
        if self.function is not None:
            supplied = recorder.provided.names(self.function)
        check_same_call(self.encoded(recorder), found, recorder.payloads, signature, supplied)

    def copy(self, promise_id: str, record: Promise | None, recorder: "Recorder") -> Settle:
        return outcome_of(promise_id, self, record, recorder) if self.waits else Settle("resolved")

    def read(self, promise_id: str, record: Promise | None, recorder: "Recorder") -> Any:
        found = super().read(promise_id, record, recorder)
        if not self.waits:
            assert record is not None
            if record.state == "rejected":
                raise recorder.decode_error(record.value)
            return self.awaits
        return found
