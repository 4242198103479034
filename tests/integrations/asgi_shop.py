"""An ASGI application whose lifespan opens the app on the server's own event loop."""

import os
from collections.abc import Awaitable, Callable
from typing import Any

import holdfast as hf

app = hf.App()


@app.workflow
async def double(number: int) -> int:
    return 2 * number


@app.task
def triple(number: int) -> int:
    return 3 * number


async def application(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    if scope["type"] == "lifespan":
        await receive()
        async with app:
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    number = int(scope["query_string"])
    sent = await triple.send_async(number)
    text = f"{os.getpid()} {await double.start(number)} {(await sent.get_async(60)).ok_value}"
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": text.encode()})
