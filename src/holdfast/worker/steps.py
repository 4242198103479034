"""temp"""

import asyncio
from typing import Any
from msgspec import Struct


class Outcome(Struct):
    value: Any = None
    error: BaseException | None = None


class StepCall(Struct):
    name: str
    function: Any
    args: Any
    kwargs: Any
    context: Any
    signal: Any
    retry: Any
    time_limit_s: Any
    mode: Any


class StepRunner:
    def __init__(self):
        self.tasks = set()

    def start(self, call, done):
        async def go():
            try:
                v = call.function(*call.args, **call.kwargs)
                if asyncio.iscoroutine(v):
                    v = await v
                o = Outcome(v)
            except Exception as e:
                o = Outcome(error=e)
            done(o)

        t = asyncio.get_running_loop().create_task(go(), context=call.context)
        self.tasks.add(t)
        t.add_done_callback(self.tasks.discard)

    async def close(self):
        pass
