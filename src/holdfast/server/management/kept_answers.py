"""Answers that several readers share: many open pages that ask the same at the same moment cost one reading.

Whoever asks with `Cache-Control: max-age=N` accepts an answer that is up to N seconds old. Nobody else gets
one.

1. An answer is given again only while the change feed has told of nothing since it was begun. So whoever was
   told of a change and reads because of it never gets an answer from before that change.
2. Those who ask while an answer is being made wait for it. It is made for its own sake: that one of them
   leaves, the first included, changes nothing.
3. It is shared by requests of one token alone, so a refusal (its rate, its rights) is nobody else's.
4. The number and the bytes that are kept are bounded; refusals are not kept.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import Struct

from holdfast.node.changes import ChangeFeed
from holdfast.server.asgi import Headers, header
from holdfast.server.grants import Grant

age_s_max: Final = 2.0
answers_max: Final = 500
bytes_max: Final = 16_777_216
_directive: Final = b"max-age="

Key = tuple[Grant, bytes, bytes]  # who asks, the path, the query


class Answer(Struct):
    frame: int  # the last that the feed had told when it was begun
    began_s: float
    body: "asyncio.Task[bytes]"
    size: int = 0


class KeptAnswers:
    def __init__(self, feed: ChangeFeed) -> None:
        self._feed = feed
        self._answers: dict[Key, Answer] = {}
        self._bytes = 0

    async def get(self, key: Key, age_s: float, make: Callable[[], Awaitable[bytes]]) -> bytes:
        """One that is no older than that, or a new one."""
        found = self._find(key, age_s)
        if found is None:
            now = asyncio.get_running_loop().time()
            made = found = Answer(self._feed.number, now, asyncio.ensure_future(make()))
            self._put(key, made)
            made.body.add_done_callback(lambda _: self._note_size(key, made))
        return await asyncio.shield(found.body)

    def ready(self, key: Key, age_s: float) -> bytes | None:
        """One that is no older than that, if it is there and done."""
        found = self._find(key, age_s)
        return found.body.result() if found is not None and found.size else None

    def _find(self, key: Key, age_s: float) -> Answer | None:
        found = self._answers.get(key)
        if found is None or found.frame != self._feed.number:
            return None
        return found if asyncio.get_running_loop().time() - found.began_s < age_s else None

    def _put(self, key: Key, answer: Answer) -> None:
        self._drop(key)
        while self._answers and (len(self._answers) >= answers_max or self._bytes > bytes_max):
            self._drop(next(iter(self._answers)))  # the oldest
        self._answers[key] = answer

    def _note_size(self, key: Key, answer: Answer) -> None:
        if self._answers.get(key) is not answer:
            return
        if answer.body.cancelled() or answer.body.exception() is not None:
            self._drop(key)
        else:
            answer.size = len(answer.body.result())
            self._bytes += answer.size

    def _drop(self, key: Key) -> None:
        if (found := self._answers.pop(key, None)) is not None:
            self._bytes -= found.size

    def stop(self) -> None:
        for answer in self._answers.values():
            answer.body.cancel()


def accepted_age_s(headers: Headers) -> float:
    """How old an answer may be; 0 if the caller said nothing of that."""
    said = (header(headers, b"cache-control") or b"").lower()
    for part in said.split(b","):
        number = part.strip().removeprefix(_directive)
        if part.strip().startswith(_directive) and number.isdigit():
            return min(age_s_max, float(number[:9]))
    return 0.0
