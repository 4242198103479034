"""A shopping cart for each customer: an entity with durable state, one call at a time."""

import asyncio

import holdfast as hf

app = hf.App("memory:")


class SoldOut(Exception):
    """The error of a call is raised where the call was made, and changes nothing of the cart."""


async def reserve(item: str, count: int) -> None:
    if item == "moon":
        raise SoldOut(item)


@app.entity
class Cart(hf.Entity):
    items: dict[str, int] = {}

    async def add(self, item: str, count: int = 1) -> int:
        self.items[item] = self.items.get(item, 0) + count
        await hf.run(reserve, item, count)  # if this fails, the line above has not happened
        return sum(self.items.values())

    async def empty(self) -> dict[str, int]:
        bought, self.items = self.items, {}
        return bought

    @hf.read
    async def show(self) -> dict[str, int]:
        return self.items


@app.workflow
async def check_out(customer: str) -> dict[str, int]:
    return await Cart(customer).empty()


async def main() -> None:
    async with app:
        cart = app.entity(Cart, "ada")
        await cart.add("tea")
        await cart.add("milk", 2)
        try:
            await cart.add("moon")
        except SoldOut as error:
            print(f"sold out: {error}")
        print("the cart:", await cart.show())
        bought = await app.start(check_out, "ada")
        print("bought:", bought)
        assert bought == {"tea": 1, "milk": 2}


if __name__ == "__main__":
    asyncio.run(main())
