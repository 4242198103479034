"""Going through everything that a search finds, a page at a time: in a script, and in asyncio."""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from holdfast.host.bridge import AppBridge

T = TypeVar("T")
# From the cursor of a page to what is on it, and the cursor of the next one, if there may be one.
ReadPage = Callable[[str | None], Coroutine[object, object, tuple[list[T], str | None]]]


def all_of(app: "AppBridge", read: ReadPage[T]) -> Iterator[T]:
    cursor: str | None = None
    while True:
        found, cursor = app.block(read(cursor))
        yield from found
        if cursor is None:
            return


async def all_of_async(app: "AppBridge", read: ReadPage[T]) -> AsyncIterator[T]:
    cursor: str | None = None
    while True:
        found, cursor = await app.bridge(read(cursor))
        for each in found:
            yield each
        if cursor is None:
            return
