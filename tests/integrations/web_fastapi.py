"""The shop behind FastAPI."""

from typing import Any

from fastapi import Depends, FastAPI, Header, HTTPException

from holdfast.ext.fastapi import HoldfastApp, accepted, exception_handlers, lifespan, response_of, router
from tests.integrations.web_shop import PUBLIC, allow, app, secret, tags


def reachable(x_closed: str | None = Header(default=None)) -> None:
    if x_closed:
        raise HTTPException(418)


application = FastAPI(lifespan=lifespan(app), exception_handlers=exception_handlers())
shop = router(app, PUBLIC, allow=allow, label_executions=tags, dependencies=[Depends(reachable)])
application.include_router(shop, prefix="/api")


@application.post("/own")
async def own(id: str, holdfast: HoldfastApp) -> Any:  # noqa: A002
    handle = holdfast.start(secret, id=id)
    return response_of(accepted(await handle.started(), "/api"))
