"""FastAPI: a lifespan, the app as a dependency, a router for workflows that describes itself in OpenAPI.

    api = FastAPI(lifespan=lifespan(app), exception_handlers=exception_handlers())
    api.include_router(router(app, [checkout], dependencies=[Depends(logged_in)]), prefix="/api")

    @api.post("/orders", status_code=202)
    async def order(cart: Cart, holdfast: HoldfastApp) -> ...:
        handle = await holdfast.start(checkout, cart).started()

What the endpoints mean is in `ext/web.py`, how they are served in `ext/starlette.py`.

1. A workflow's arguments are checked by its own signature, and shown in OpenAPI with that.
2. Dependencies, prefixes and tags of OpenAPI are the router's own: `router(..., **options of APIRouter)`.
"""

import inspect
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Annotated, Any, Final

from holdfast.app import App, Workflow
from holdfast.ext.optional import load
from holdfast.ext.starlette import (
    accepted,
    app_of,
    exception_handlers,
    execution_routes,
    lifespan,
    response_of,
    serve_start,
)
from holdfast.ext.web import Allow, Endpoints, MakeTags
from holdfast.payloads.schemas import Schema

__all__ = [
    "HoldfastApp",
    "accepted",
    "app_of",
    "exception_handlers",
    "get_app",
    "lifespan",
    "response_of",
    "router",
]

_fastapi = load("fastapi")
_requests = load("starlette.requests")

depth_max: Final = 20  # of a schema whose definitions are written out


def get_app(connection: Any) -> App:
    """A dependency: the app that the lifespan has opened."""
    return app_of(connection)


get_app.__annotations__["connection"] = _requests.HTTPConnection  # so that FastAPI fills it in
HoldfastApp = Annotated[App, _fastapi.Depends(get_app)]


def router(
    app: App,
    workflows: Sequence[Workflow[..., Any]],
    *,
    allow: Allow | None = None,
    label_executions: MakeTags | None = None,
    **options: Any,
) -> Any:
    """A router that starts these workflows, looks at their executions, streams, settles, tells and cancels.

    `allow(request, action)`: may this user do that? `label_executions(request)`: tags of executions that are
    started, such as who started them. `options` are those of `APIRouter`: `prefix`, `dependencies`, `tags`.
    Without `allow` everybody who reaches the router may do everything with executions of these workflows.
    """
    endpoints = Endpoints(app, workflows, allow, label_executions)
    found = _fastapi.APIRouter(**options)
    for name, workflow in endpoints.workflows.items():
        schema, about = endpoints.schema(workflow)
        found.add_api_route(
            f"/{name}",
            _with_request(partial(serve_start, endpoints, name), ()),
            methods=["POST"],
            status_code=202,
            name=f"start {name}",
            description=about or f"Start {name}.",
            openapi_extra=_body(_written_out(schema)),
            responses=_started,
        )
    for path, method, serve in execution_routes:
        names = ("id", "name") if "{name}" in path else ("id",)
        found.add_api_route(
            path,
            _with_request(partial(serve, endpoints), names),
            methods=[method],
            name=serve.__name__.removeprefix("serve_"),
            description=_about[serve.__name__],
            openapi_extra=_body({}) if method == "POST" else None,
            responses=_looked,
        )
    return found


_started: Final = {
    200: {"description": "It is over: status and result"},
    202: {"description": "Id and links"},
}
_looked: Final = {404: {"description": "There is no such execution, or not for you"}}
_about: Final = {
    "serve_look": "What an execution is doing, and its result.",
    "serve_stream": "What it emits under a name, as server-sent events; the event `end` has the result.",
    "serve_settle": "Give it the value of a promise that it waits for, such as an approval.",
    "serve_tell": "Send it a message.",
    "serve_cancel": "Ask it to cancel itself.",
}


def _with_request(
    serve: Callable[[Any], Coroutine[Any, Any, Any]], names: Sequence[str]
) -> Callable[..., Coroutine[Any, Any, Any]]:
    """As FastAPI reads functions: with a request, and with the parameters of the path."""

    async def endpoint(request: Any, **_: str) -> Any:
        return await serve(request)

    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter("request", kind, annotation=_requests.Request)]
    parameters += [inspect.Parameter(name, kind, annotation=str) for name in names]
    endpoint.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return endpoint


def _body(schema: Schema) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _written_out(schema: Schema) -> Schema:
    """Without references: those of a schema that stands alone lead nowhere in the document of OpenAPI."""
    definitions = schema.get("$defs", {})

    def write(part: Any, depth: int) -> Any:
        if depth > depth_max:
            return {}  # it contains itself: any JSON
        if isinstance(part, list):
            items: list[Any] = part  # pyright: ignore[reportUnknownVariableType]
            return [write(each, depth) for each in items]
        if not isinstance(part, dict):
            return part
        fields: Schema = part  # pyright: ignore[reportUnknownVariableType]
        if named := str(fields.get("$ref", "")):
            return write(definitions.get(named.rpartition("/")[2], {}), depth + 1)
        return {key: write(each, depth) for key, each in fields.items() if key != "$defs"}

    found: Schema = write(schema, 0)
    return found
