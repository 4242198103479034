"""Found by Django when it is ready, wherever the app itself is."""

import os
import signal
from pathlib import Path

import holdfast as hf
from tests.integrations.django_shop.durable import app


def write_receipt(order: int) -> str:
    from tests.integrations.django_shop.models import Order

    found = Order.objects.get(pk=order)
    if found.item == os.environ.get("SHOP_KILLED_AT"):
        os.kill(os.getpid(), signal.SIGKILL)
    found.receipt = f"receipt for {found.item}"
    found.save()
    with (Path(os.environ["SHOP_DIR"]) / "receipts").open("a") as receipts:
        receipts.write(f"{found.item}\n")
    return found.receipt


@app.workflow
async def pack(order: int) -> str:
    return await hf.run(write_receipt, order)


@app.task
def count(order: int) -> int:
    return order
