"""Tasks are cancelled, and waited for."""

import asyncio

from holdfast.node.end_tasks import end_tasks


async def test_tasks_are_over_when_it_returns_however_they_end() -> None:
    ended: list[str] = []

    async def clean_up(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(name)
            raise ValueError(name)

    tasks = {asyncio.create_task(clean_up(name)) for name in "ab"}
    for task in tasks:
        task.add_done_callback(tasks.discard)  # as their owners do, while they are ended
    await asyncio.sleep(0)
    await end_tasks(tasks)
    assert sorted(ended) == ["a", "b"]


async def test_what_is_over_or_was_never_there_is_left_out() -> None:
    async def give() -> int:
        return 7

    done = asyncio.create_task(give())
    await done
    await end_tasks([done, None])
    assert (done.cancelled(), done.result()) == (False, 7)
