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
        "context.runner.start(call, partial(self._performed, step))",
        "context.runner.start(call, partial(self._ended, step))",
        "tests/workflow/test_emitting.py -k recorded_after",
    ),
    Mutant(
        "who only peeks is given a promise",
        "with `peek` only what is there is shown",
        "engine",
        "data.number > count and not data.peek",
        "data.number > count",
        "tests/conformance/test_streams.py -k peeks",
    ),
    Mutant(
        "the last message that was read is not counted",
        "at its end an execution says what it has read",
        "workflow",
        "StreamNext(root, MAILBOX, number + 1, peek=True)",
        "StreamNext(root, MAILBOX, number, peek=True)",
        "tests/cli/test_conversations.py -k tree_counts",
    ),
    Mutant(
        "a large tree goes with what is pending in it",
        "a tree goes when all of it is over",
        "node",
        "if not over:\n"
        "    self.progress = replace(self.progress, judging=None, judged_to='')\n"
        "    return True",
        "if not over and not page:\n    return True",
        "tests/node/test_retention.py -k seen_whole",
    ),
    Mutant(
        "a ticket is good for every path",
        "a ticket admits to the events of one path",
        "server",
        "if found.path != [*path]:\n    raise Unauthenticated(...)",
        "if not found.path:\n    raise Unauthenticated('x')",
        "tests/management/test_events.py -k ticket",
    ),
    Mutant(
        "a ticket never ends",
        "a ticket ends no later than it says",
        "server",
        "if found.until <= now:\n    raise Unauthenticated(...)",
        "if found.until < 0:\n    raise Unauthenticated('x')",
        "tests/management/test_events.py -k ticket",
    ),
    Mutant(
        "a reader that comes back begins again",
        "whoever was cut off goes on after the event that he had last",
        "server",
        "if not last:\n    return call.integer('after')",
        "if True:\n    return call.integer('after')",
        "tests/management/test_conversations.py -k cut_off",
    ),
    Mutant(
        "a suspend does not look whether the message has come",
        "a message that came before the suspend is seen",
        "engine",
        "is_woken or any(promise.state != 'pending' for promise in awaited.values())",
        "is_woken",
        "tests/workflow/test_messages.py",
    ),
    Mutant(
        "an execution stays for a moment after every message",
        "where messages come slowly none of them costs a write more",
        "workflow",
        "self._has_paid = now_s - self._suspended_s < self.moment_s",
        "self._has_paid = True",
        "tests/workflow/test_lingering.py -k slowly",
    ),
    Mutant(
        "what a worker knows is preloaded all the same",
        "a claim of a long execution costs what one of a short one does",
        "engine",
        "if is_known or room.is_full or not ws.has_room_for_answers:\n    return [], ''",
        "if room.is_full or not ws.has_room_for_answers:\n    return [], ''",
        "tests/conformance/test_additions.py -k known",
    ),
    Mutant(
        "a warm execution does not look at what it was not given",
        "whatever settled while it was suspended is seen",
        "workflow",
        "self._is_doubtful |= claim.cursor is not None",
        "pass",
        "tests/workflow/test_warm.py -k does_nothing_for_the_message",
    ),
)
