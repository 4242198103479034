"""Flask: the app of a Flask application, a blueprint for workflows, errors as answers.

    init_app(flask_app, app)
    flask_app.register_blueprint(blueprint(app, [checkout], url_prefix="/api"))

What the endpoints mean is in `ext/web.py`. Requests run on threads here, and the app lives in one of its own.

1. The app is opened by the first request that needs it, in the process that serves it, so after any fork.
2. A stream holds its thread until it ends; while it is silent, a gone client is noticed every 15 s.
"""

from collections.abc import Callable, Sequence
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
    accepted,
    base_of,
    body_bytes_max,
    pumped,
    refusal,
    run_now,
    stream_headers,
)
from holdfast.protocol.errors import HoldfastError

__all__ = ["accepted", "app_of", "blueprint", "init_app", "response_of"]

_flask = load("flask")


def init_app(flask_app: Any, app: App) -> None:
    """Make the app known to the Flask application (`app_of()`), and its errors answers with a status."""
    flask_app.extensions["holdfast"] = app

    def handle(error: HoldfastError) -> Any:
        return response_of(refusal(error))

    flask_app.register_error_handler(HoldfastError, handle)


def app_of() -> App:
    """The app of the Flask application that serves this request."""
    found = _flask.current_app.extensions.get("holdfast")
    if not isinstance(found, App):
        raise RuntimeError("This Flask application has no Holdfast app: call init_app(flask_app, app).")
    return found


def response_of(answer: WebAnswer) -> Any:
    """A response of Flask: `response_of(accepted(handle))`."""
    return _flask.Response(answer.body, answer.status, dict(answer.headers))


def blueprint(
    app: App,
    workflows: Sequence[Workflow[..., Any]],
    *,
    name: str = "holdfast",
    allow: Allow | None = None,
    tags: MakeTags | None = None,
    **options: Any,
) -> Any:
    """A blueprint that starts these workflows, looks at executions, streams, settles, tells and cancels.

    `allow(request, action)`: may this user do that? `tags(request)`: of executions that are started, such as
    who started them. `options` are those of `Blueprint`: `url_prefix`, `subdomain`. Without `allow` everybody
    who reaches the blueprint may do everything with executions of these workflows.
    """
    endpoints = Endpoints(app, workflows, allow, tags, BlockingWay(app))
    found = _flask.Blueprint(name, __name__, **options)

    def add(path: str, method: str, view: str, serve: Callable[..., Any]) -> None:
        found.add_url_rule(path, endpoint=view, view_func=serve, methods=[method])

    def start(workflow: str) -> Any:
        return _answer(endpoints, endpoints.start(_request(f"/{workflow}"), workflow))

    def look(id: str) -> Any:  # noqa: A002
        return _answer(endpoints, endpoints.look(_request(f"/executions/{id}"), id))

    def settle(id: str, name: str) -> Any:  # noqa: A002
        asked = _request(f"/executions/{id}/promises/{name}")
        return _answer(endpoints, endpoints.settle(asked, id, name))

    def tell(id: str) -> Any:  # noqa: A002
        return _answer(endpoints, endpoints.tell(_request(f"/executions/{id}/messages"), id))

    def cancel(id: str) -> Any:  # noqa: A002
        return _answer(endpoints, endpoints.cancel(_request(f"/executions/{id}/cancel"), id))

    def stream(id: str, name: str) -> Any:  # noqa: A002
        asked = _request(f"/executions/{id}/streams/{name}")
        opened = run_now(endpoints.open_stream(asked, id, name))
        if isinstance(opened, WebAnswer):
            return response_of(opened)
        return _flask.Response(pumped(app, opened), headers=stream_headers)

    add("/executions/<path:id>/streams/<name>", "GET", "stream", stream)
    add("/executions/<path:id>/promises/<name>", "POST", "settle", settle)
    add("/executions/<path:id>/messages", "POST", "tell", tell)
    add("/executions/<path:id>/cancel", "POST", "cancel", cancel)
    add("/executions/<path:id>", "GET", "look", look)
    add("/<workflow>", "POST", "start", start)
    return found


def _answer(endpoints: Endpoints, work: Any) -> Any:
    return response_of(run_now(endpoints.answer(work)))


def _request(tail: str) -> WebRequest:
    """No more of the body than one byte too many: what is too much is refused by its size."""
    request = _flask.request
    body: bytes = request.stream.read(body_bytes_max + 1) if request.method == "POST" else b""
    headers = {str(name).lower(): str(value) for name, value in request.headers.items()}
    path = f"{request.script_root}{request.path}"
    return WebRequest(headers, body, request, base_of(path, tail))
