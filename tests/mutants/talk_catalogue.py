"""Mutants of conversations: receiving, answering, telling others, emitting."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_MESSAGES = "tests/workflow/test_messages.py"

TALKS = (
    Mutant(
        "what a lost race has taken is gone",
        "an interrupted receiver loses no message",
        "runtime",
        "self._elements.insert(place, (turn.number, turn.item))\nturn.reopen()",
        "turn.reopen()",
        f"{_MESSAGES} -k gather",
    ),
    Mutant(
        "an answer is noted and not sent",
        "whoever asks is answered",
        "workflow",
        "self._unwritten += note.effects(promise_id)",
        "pass",
        f"{_MESSAGES} -k answered",
    ),
    Mutant(
        "a replay compares before it has read the messages",
        "every replay sees the same messages at the same points",
        "workflow",
        "self.fault is None and not self._to_read()",
        "self.fault is None",
        "tests/testing/test_conversations.py -k ask_each_other",
    ),
    Mutant(
        "a message that cannot be read vanishes",
        "a message of another type is set aside",
        "runtime",
        "self._set_aside(element, error)\ncontinue",
        "continue",
        f"{_MESSAGES} -k aside",
    ),
    Mutant(
        "a message to another execution has no key",
        "a message is sent once, however often the sender is replayed",
        "workflow",
        "StreamAppend(self.other, MAILBOX, self.message, key=key_of(promise_id))",
        "StreamAppend(self.other, MAILBOX, self.message)",
        "tests/workflow/test_talking.py -k sent_once",
    ),
    Mutant(
        "the result of a step does not wait for what it has emitted",
        "a result is recorded after everything that the step has emitted",
        "workflow",
        "self._worker_context.runner.start(call, lambda outcome: emitter.finish(outcome, done))",
        "self._worker_context.runner.start(call, done)",
        "tests/workflow/test_emitting.py -k recorded_after",
    ),
)
