"""A model looks at executions over MCP. Here the client of the official package is in the model's place.

Without `write=True` the tools that change something do not exist. `holdfast mcp` serves the same tools to an
IDE or a desktop program. Needs `pip install 'holdfast[mcp]'`.
"""

import asyncio
import json

from mcp import Client

import holdfast as hf
from holdfast.ext.mcp import server

app = hf.App("memory:")


@app.workflow
async def order(item: str) -> str:
    approved = await hf.promise(bool, name="approval", timeout="3d")
    return f"{item} is {'on its way' if approved else 'refused'}"


async def main() -> None:
    async with app:
        handle = await order.with_options(id="order-17").start("tea").started()
        async with Client(server(app, write=True)) as model:
            print([tool.name for tool in (await model.list_tools()).tools])
            await model.call_tool("settle", {"id": "order-17", "name": "approval", "value": True})
            await handle
            found = await model.call_tool("look", {"id": "order-17"})
            print(json.loads(found.content[0].text)["result"])


if __name__ == "__main__":
    asyncio.run(main())
