"""URL patterns for workflows: `path("api/", include(urls(app, [checkout])))`.

What the endpoints mean is in `ext/web.py`. All views are plain functions: Django runs them on threads, also
under ASGI. Only a stream differs: under ASGI it is written by the event loop and holds no thread.

1. Django's own protection against forged requests stays on: a POST from a page carries its token.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

from holdfast.app import App, Workflow
from holdfast.ext.optional import load
from holdfast.ext.web import (
    Allow,
    BlockingWay,
    Endpoints,
    MakeTags,
    WebAnswer,
    WebRequest,
    base_of,
    body_bytes_max,
    pumped,
    run_now,
    stream_headers,
)

_http = load("django.http")
_urls = load("django.urls")

View = Callable[..., Any]


def urls(
    app: App,
    workflows: Sequence[Workflow[..., Any]],
    *,
    allow: Allow | None = None,
    tags: MakeTags | None = None,
    decorator: Callable[[View], View] | None = None,
) -> list[Any]:
    """Patterns that start these workflows, look at executions, stream, settle, tell and cancel.

    `allow(request, action)`: may this user do that? `tags(request)`: of executions that are started, such as
    who started them. `decorator` is put around every view: `login_required`, `csrf_exempt`. Without `allow`
    everybody who reaches the patterns may do everything with executions of these workflows.
    """
    endpoints = Endpoints(app, workflows, allow, tags, BlockingWay(app))
    views = _Views(endpoints)
    routes: list[tuple[str, str, View]] = [
        ("executions/<path:id>/streams/<str:name>", "GET", views.stream),
        ("executions/<path:id>/promises/<str:name>", "POST", views.settle),
        ("executions/<path:id>/messages", "POST", views.tell),
        ("executions/<path:id>/cancel", "POST", views.cancel),
        ("executions/<path:id>", "GET", views.look),
        ("<str:workflow>", "POST", views.start),
    ]
    found: list[Any] = []
    for route, method, view in routes:
        served = _only(method, view)
        name = f"holdfast-{view.__name__}"
        found.append(_urls.path(route, served if decorator is None else decorator(served), name=name))
    return found


class _Views:
    def __init__(self, endpoints: Endpoints) -> None:
        self._endpoints = endpoints

    def start(self, request: Any, workflow: str) -> Any:
        return self._answer(self._endpoints.start(_asked(request, f"/{workflow}"), workflow))

    def look(self, request: Any, id: str) -> Any:  # noqa: A002
        return self._answer(self._endpoints.look(_asked(request, f"/executions/{id}"), id))

    def settle(self, request: Any, id: str, name: str) -> Any:  # noqa: A002
        asked = _asked(request, f"/executions/{id}/promises/{name}")
        return self._answer(self._endpoints.settle(asked, id, name))

    def tell(self, request: Any, id: str) -> Any:  # noqa: A002
        return self._answer(self._endpoints.tell(_asked(request, f"/executions/{id}/messages"), id))

    def cancel(self, request: Any, id: str) -> Any:  # noqa: A002
        return self._answer(self._endpoints.cancel(_asked(request, f"/executions/{id}/cancel"), id))

    def stream(self, request: Any, id: str, name: str) -> Any:  # noqa: A002
        asked = _asked(request, f"/executions/{id}/streams/{name}")
        opened = run_now(self._endpoints.open_stream(asked, id, name))
        if isinstance(opened, WebAnswer):
            return _response(opened)
        is_asgi = hasattr(request, "scope")
        pieces: Any = _kept_open(opened) if is_asgi else pumped(self._endpoints.app, opened)
        return _http.StreamingHttpResponse(pieces, headers=stream_headers)

    def _answer(self, work: Any) -> Any:
        return _response(run_now(self._endpoints.answer(work)))


async def _kept_open(feed: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Closed with the response, also when the client has gone."""
    try:
        async for piece in feed:
            yield piece
    finally:
        await feed.aclose()


def _only(method: str, view: View) -> View:
    def served(request: Any, **parts: str) -> Any:
        if request.method != method:
            return _http.HttpResponseNotAllowed([method])
        return view(request, **parts)

    return served


def _response(answer: WebAnswer) -> Any:
    return _http.HttpResponse(answer.body, status=answer.status, headers=dict(answer.headers))


def _asked(request: Any, tail: str) -> WebRequest:
    """No more of the body than one byte too many: what is too much is refused by its size."""
    body: bytes = request.read(body_bytes_max + 1) if request.method == "POST" else b""
    headers = {str(name).lower(): str(value) for name, value in request.headers.items()}
    return WebRequest(headers, body, request, base_of(str(request.path), tail))
