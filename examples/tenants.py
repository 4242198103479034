"""Many tenants in one app: a context variable that travels with the work, and middleware that uses it.

Every start, step and task sees the tenant of whoever began it, in whichever process it runs. A middleware
refuses work without a tenant, and another one counts what each tenant has used.

    python examples/tenants.py
"""

from collections import Counter
from collections.abc import Generator
from contextvars import ContextVar
from typing import Any

import holdfast as hf

app = hf.App()
tenant: ContextVar[str] = ContextVar("tenant")
app.carry(tenant)
used: Counter[str] = Counter()


@app.middleware("start", "send")
def needs_a_tenant(invocation: hf.types.Invocation) -> Generator[None, Any, None]:
    if not tenant.get(""):
        raise PermissionError(f"{invocation.name} was started for nobody")
    yield


@app.middleware("step", "task")
def metered(invocation: hf.types.Invocation) -> Generator[None, Any, None]:
    yield
    used[tenant.get()] += 1  # only what has succeeded: an error would be raised at the yield


@app.task
def send_receipt(order: str) -> str:
    return f"receipt of {order} for {tenant.get()}"


def charge(order: str) -> str:
    return f"{tenant.get()} pays for {order}"


@app.workflow
async def checkout(order: str) -> list[str]:
    paid = await hf.run(charge, order)
    receipt = await hf.call(send_receipt, order)
    return [paid, receipt.ok_value]


def main() -> None:
    with app:
        try:
            checkout.start("tea")
        except PermissionError as refusal:
            print("refused:", refusal)
        for name in ("acme", "globex"):
            tenant.set(name)
            print(checkout.start("tea").result())
    print(dict(used))
    assert used == {"acme": 2, "globex": 2}


if __name__ == "__main__":
    main()
