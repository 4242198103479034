"""Found by Django when it is ready, wherever the app itself is."""

import holdfast as hf
from tests.integrations.django_shop.durable import app


def write_receipt(order: int) -> str:
    from tests.integrations.django_shop.models import Order

    found = Order.objects.get(pk=order)
    found.receipt = f"receipt for {found.item}"
    found.save()
    return found.receipt


@app.workflow
async def pack(order: int) -> str:
    return await hf.run(write_receipt, order)


@app.task
def count(order: int) -> int:
    return order
