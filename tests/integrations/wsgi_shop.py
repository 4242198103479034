"""A WSGI application that starts workflows and sends tasks. OPEN_EARLY: the app is open before the fork."""

import os
from collections.abc import Callable, Iterable
from typing import Any

import holdfast as hf

app = hf.App()


@app.workflow
async def double(number: int) -> int:
    return 2 * number


@app.task
def triple(number: int) -> int:
    return 3 * number


if os.environ.get("OPEN_EARLY"):
    double.start(1).result(60)


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    number = int(environ["QUERY_STRING"])
    try:
        text = f"{double.start(number).result(60)} {triple.send(number).get(60).ok_value}"
        status = "200 OK"
    except hf.HoldfastError as error:
        text, status = str(error), "500 Internal Server Error"
    start_response(status, [("Content-Type", "text/plain")])
    return [f"{os.getpid()} {text}".encode()]
