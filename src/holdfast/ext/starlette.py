"""Starlette: a lifespan that opens the app, the app for an endpoint, routes for workflows, errors as answers.

    asgi = Starlette(routes=routes(app, [checkout], prefix="/api"), lifespan=lifespan(app),
                     exception_handlers=exception_handlers())

What the endpoints mean is in `ext/web.py`; this module makes routes of them. FastAPI's adapter uses it too.

1. The lifespan opens the app on the server's own event loop: no thread and no second loop is needed.
2. A client that goes away ends its stream: Starlette cancels what writes it.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

from holdfast.app import App, Workflow
from holdfast.ext.optional import load
from holdfast.ext.web import (
    Allow,
    Endpoints,
    MakeTags,
    WebAnswer,
    WebRequest,
    accepted,
    base_of,
    body_bytes_max,
    refusal,
    stream_headers,
)
from holdfast.protocol.errors import HoldfastError

__all__ = ["accepted", "app_of", "exception_handlers", "lifespan", "response_of", "routes"]

_responses = load("starlette.responses")
_routing = load("starlette.routing")

Lifespan = Callable[[Any], AbstractAsyncContextManager[Mapping[str, Any] | None]]


def lifespan(app: App, inner: Lifespan | None = None) -> Callable[[Any], AbstractAsyncContextManager[Any]]:
    """Open the app while the server runs. `inner`: a lifespan of your own, which finds the app open.

    Crash: what was accepted goes on in the next process. When the server stops, running steps may finish.

    >>> Starlette(lifespan=lifespan(app))
    """

    @asynccontextmanager
    async def opened(asgi: Any) -> AsyncGenerator[dict[str, Any]]:
        async with app:
            if inner is None:
                yield {"holdfast": app}
                return
            async with inner(asgi) as state:
                yield {**(state or {}), "holdfast": app}

    return opened


def app_of(connection: Any) -> App:
    """The app that the lifespan has opened, for the code of an endpoint: `app_of(request)`."""
    found = getattr(connection.state, "holdfast", None)
    if not isinstance(found, App):
        raise RuntimeError(
            "The Holdfast app is not open: create the application with lifespan=lifespan(app)."
        )
    return found


def routes(
    app: App,
    workflows: Sequence[Workflow[..., Any]],
    *,
    prefix: str = "",
    allow: Allow | None = None,
    tags: MakeTags | None = None,
) -> list[Any]:
    """Routes that start these workflows, look at their executions, stream, settle, tell and cancel.

    `allow(request, action)`: may this user do that? `tags(request)`: of executions that are started, such as
    who started them. Without `allow` everybody who reaches the routes may do everything with these workflows.
    """
    endpoints = Endpoints(app, workflows, allow, tags)
    Route = _routing.Route  # noqa: N806
    found = [
        Route(f"{prefix}/{name}", partial(serve_start, endpoints, name), methods=["POST"])
        for name in endpoints.workflows
    ]
    for path, method, serve in execution_routes:
        found.append(Route(f"{prefix}{path}", partial(serve, endpoints), methods=[method]))
    return found


def exception_handlers() -> dict[Any, Callable[[Any, Any], Awaitable[Any]]]:
    """Errors of Holdfast that your own endpoints do not catch, as answers with a status and a code."""

    async def handle(_: Any, error: HoldfastError) -> Any:
        return response_of(refusal(error))

    return {HoldfastError: handle}


def response_of(answer: WebAnswer) -> Any:
    """A response of Starlette: `response_of(accepted(handle))`."""
    return _responses.Response(answer.body, answer.status, dict(answer.headers))


# --- serving -----------------------------------------------------------------------------------------------


async def serve_start(endpoints: Endpoints, name: str, request: Any) -> Any:
    asked = await _request(request, f"/{name}")
    return response_of(await endpoints.answer(endpoints.start(asked, name)))


async def serve_look(endpoints: Endpoints, request: Any) -> Any:
    execution_id = _param(request, "id")
    asked = await _request(request, f"/executions/{execution_id}")
    return response_of(await endpoints.answer(endpoints.look(asked, execution_id)))


async def serve_settle(endpoints: Endpoints, request: Any) -> Any:
    execution_id, name = _param(request, "id"), _param(request, "name")
    asked = await _request(request, f"/executions/{execution_id}/promises/{name}")
    return response_of(await endpoints.answer(endpoints.settle(asked, execution_id, name)))


async def serve_tell(endpoints: Endpoints, request: Any) -> Any:
    execution_id = _param(request, "id")
    asked = await _request(request, f"/executions/{execution_id}/messages")
    return response_of(await endpoints.answer(endpoints.tell(asked, execution_id)))


async def serve_cancel(endpoints: Endpoints, request: Any) -> Any:
    execution_id = _param(request, "id")
    asked = await _request(request, f"/executions/{execution_id}/cancel")
    return response_of(await endpoints.answer(endpoints.cancel(asked, execution_id)))


async def serve_stream(endpoints: Endpoints, request: Any) -> Any:
    execution_id, name = _param(request, "id"), _param(request, "name")
    asked = await _request(request, f"/executions/{execution_id}/streams/{name}")
    opened = await endpoints.open_stream(asked, execution_id, name)
    if isinstance(opened, WebAnswer):
        return response_of(opened)
    return _responses.StreamingResponse(opened, headers=stream_headers)


Serve = Callable[[Endpoints, Any], Coroutine[Any, Any, Any]]
# An id may hold slashes, so the longer paths come first.
execution_routes: tuple[tuple[str, str, Serve], ...] = (
    ("/executions/{id:path}/streams/{name}", "GET", serve_stream),
    ("/executions/{id:path}/promises/{name}", "POST", serve_settle),
    ("/executions/{id:path}/messages", "POST", serve_tell),
    ("/executions/{id:path}/cancel", "POST", serve_cancel),
    ("/executions/{id:path}", "GET", serve_look),
)


def _param(request: Any, name: str) -> str:
    return str(request.path_params[name])


async def _request(request: Any, tail: str) -> WebRequest:
    """No more of the body than one byte too many: what is too much is refused by its size."""
    parts: list[bytes] = []
    size = 0
    if request.method == "POST":
        async for part in request.stream():
            parts.append(part)
            size += len(part)
            if size > body_bytes_max:
                break
    return WebRequest(
        {str(name): str(value) for name, value in request.headers.items()},
        b"".join(parts),
        request,
        base_of(str(request.scope["path"]), tail),
    )
