"""The shop behind Starlette."""

from typing import Any

from starlette.applications import Starlette
from starlette.routing import Route

from holdfast.ext.starlette import accepted, app_of, exception_handlers, lifespan, response_of, routes
from tests.integrations.web_shop import PUBLIC, allow, app, secret, tags


async def own(request: Any) -> Any:
    """An endpoint of the application's own."""
    handle = app_of(request).start(secret, id=request.query_params["id"])
    return response_of(accepted(await handle.started(), "/api"))


application = Starlette(
    routes=[
        *routes(app, PUBLIC, prefix="/api", allow=allow, tags=tags),
        Route("/own", own, methods=["POST"]),
    ],
    lifespan=lifespan(app),
    exception_handlers=exception_handlers(),
)
