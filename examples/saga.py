"""A trip of three bookings. The last one fails, and what was booked is cancelled, newest first."""

import holdfast as hf

app = hf.App()


class SoldOut(Exception):
    pass


@hf.step
def book(what: str) -> str:
    if what == "museum":
        raise SoldOut(what)
    print(f"booked {what}")
    return f"{what}-{len(what)}"


@hf.step(retry=hf.Retry(attempts=10))
def cancel(booking: str) -> None:
    print(f"cancelled {booking}")


@app.workflow
async def trip(parts: list[str]) -> list[str]:
    booked: list[str] = []
    try:
        for part in parts:
            booked.append(await book(part))  # noqa: PERF401 (what is booked must be known below)
    except SoldOut:
        for booking in reversed(booked):
            await cancel(booking)
        raise
    return booked


if __name__ == "__main__":
    print(app.start(trip, ["flight", "hotel"], id="trip-1").result())
    try:
        app.start(trip, ["flight", "hotel", "museum"], id="trip-2").result()
    except SoldOut as error:
        print(f"no trip: {error} is sold out")
