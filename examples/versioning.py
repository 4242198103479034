"""Code changes while executions run. `patched` gives the new path to those that have not passed it yet."""

import holdfast as hf

app = hf.App()


def price(item: str) -> int:
    return 10 * len(item)


def tax(cents: int) -> int:
    return cents // 5


@app.workflow
async def invoice(item: str) -> int:
    total = await hf.run(price, item)
    # Added later. An execution that was recorded beyond this line goes on without it, forever.
    if await hf.patched("tax"):
        total += await hf.run(tax, total)
    await hf.sleep("100ms")
    return total


@app.workflow(name="invoice", version=2)
async def invoice_in_euro(item: str) -> str:
    """Too different for a patch: a new version. Executions of version 1 stay with it."""
    return f"{await hf.run(price, item) / 100:.2f} EUR"


if __name__ == "__main__":
    print("version 1:", app.start(invoice, "kettle").result())
    print("version 2:", app.start(invoice_in_euro, "kettle").result())
