"""A subscription without an end: it charges every month, and continues as new with what it must remember."""

import holdfast as hf

app = hf.App("memory:")
charges: list[int] = []


def charge(customer: str, cents: int) -> None:
    charges.append(cents)


@app.workflow
async def subscription(customer: str, cents: int, paid: int = 0) -> int:
    """Messages: a number changes the price, `None` ends it. They are kept from month to month."""
    await hf.run(charge, customer, cents)
    await hf.publish("paid", paid + 1)
    try:
        wish = await hf.receive(int | None, timeout=0.2)  # a month
    except hf.TimedOut:
        return hf.continue_as_new(customer, cents, paid + 1)
    if wish is None:
        return paid + 1
    return hf.continue_as_new(customer, wish, paid + 1)


def main() -> None:
    with app:
        handle = app.start(subscription, "ada", 900, id="sub-ada")
        app.tell("sub-ada", 700)
        app.tell("sub-ada", None)
        months = handle.result()
        print(f"{months} months, {charges} cents, generation {handle.info().generation}")
        assert charges == [900, 700]


if __name__ == "__main__":
    main()
