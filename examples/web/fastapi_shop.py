"""FastAPI: start an order, follow it live, approve it.

    uvicorn examples.web.fastapi_shop:api
    curl --json '{"item": "tea", "cents": 500}' localhost:8000/api/checkout
    curl -N localhost:8000/api/executions/ID/streams/progress
    curl --json '"ada"' localhost:8000/api/executions/ID/promises/approval

The interactive documentation is at http://localhost:8000/docs.
"""

from typing import Any

from fastapi import FastAPI

import holdfast as hf
from holdfast.ext.fastapi import HoldfastApp, accepted, exception_handlers, lifespan, response_of, router

app = hf.App()


def reserve(item: str) -> str:
    return f"{item} from shelf 7"


@app.workflow
async def checkout(item: str, cents: int) -> dict[str, Any]:
    """Reserve an item; from 100.00 on, somebody has to approve it."""
    await hf.emit("progress", "reserving")
    reserved = await hf.run(reserve, item)
    await hf.emit("progress", f"reserved {reserved}")
    approved_by = await hf.promise(str, name="approval", timeout="7d") if cents >= 10_000 else "nobody"
    await hf.emit("progress", "done")
    return {"item": reserved, "cents": cents, "approved_by": approved_by}


api = FastAPI(lifespan=lifespan(app), exception_handlers=exception_handlers())
api.include_router(router(app, [checkout]), prefix="/api")


@api.post("/orders/{number}", status_code=202)
async def order(number: int, item: str, holdfast: HoldfastApp) -> Any:
    """An endpoint of your own. It answers when the start is durable."""
    handle = await holdfast.start(checkout, item, 500, id=f"order-{number}").started()
    return response_of(accepted(handle, "/api"))
