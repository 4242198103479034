"""A step that fails for good is one event in Sentry, with the execution, the step and the attempt as tags.

Needs `pip install 'holdfast[sentry]'`. Set SENTRY_DSN to send the events; here they are printed.
"""

from typing import Any

import sentry_sdk

import holdfast as hf
from holdfast.ext.sentry import Sentry


def show(event: dict[str, Any], hint: dict[str, Any]) -> dict[str, Any]:
    print(event["exception"]["values"][-1]["value"], dict(event["tags"])["holdfast.attempt"])
    return event


sentry_sdk.init(before_send=show)
app = hf.App()
app.use(Sentry())


@hf.step(retry=hf.Retry(attempts=3, delay="10ms"))
def charge(cents: int) -> None:
    raise ConnectionError("the bank is away")


@app.workflow
async def checkout(cents: int) -> str:
    try:
        await charge(cents)
    except ConnectionError:
        return "ask for another card"
    return "paid"


if __name__ == "__main__":
    with app:
        print(checkout.start(500).result())
