"""Two carriers are asked for a price. The first to answer gets the parcel; a second is the most we wait."""

import asyncio

import holdfast as hf

app = hf.App()


async def quote(carrier: str, delay: float) -> str:
    await asyncio.sleep(delay)
    return f"{carrier} answers after {delay} s"


@app.workflow
async def cheapest(snail: float, hare: float) -> str:
    first, answer = await hf.select(
        snail=hf.run(quote, "snail", snail), hare=hf.run(quote, "hare", hare), nobody=hf.sleep("1s")
    )
    return "nobody answered in time" if first == "nobody" else str(await answer)


if __name__ == "__main__":
    print(app.start(cheapest, 0.5, 0.1).result())
    print(app.start(cheapest, 5, 5).result())
