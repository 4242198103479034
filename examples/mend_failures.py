"""After a bug: retry what failed from where it failed, fork one from before a step, repair many at once.

python examples/mend_failures.py
"""

import time

import holdfast as hf

app = hf.App()
run = f"{time.time_ns():x}"  # ids of this run: the file may be started again
is_fixed = False


@hf.step
def reserve(order: str) -> str:
    return f"shelf 4 for {order}"


@hf.step
def price(order: str, cents: int) -> int:
    if not is_fixed:
        raise ZeroDivisionError("the discount of nobody")
    return cents * 9 // 10


@app.workflow
async def checkout(order: str, cents: int) -> str:
    place = await reserve(order)  # it stays reserved, whatever happens below
    return f"{place}: {await price(order, cents)} cents"


def main() -> None:
    global is_fixed
    with app:
        handles = [checkout.with_options(id=f"{run}-{n}").start(f"order {n}", 1000) for n in range(3)]
        for handle in handles:
            try:
                handle.result(10)
            except ZeroDivisionError as error:
                print(f"{handle.info().state}: {error}")

        is_fixed = True  # in real life: a deployment
        handles[0].retry()
        print(handles[0].result(10))

        repair = app.find(
            checkout, status="failed", prefix=f"{run}-"
        ).retry()  # in the background, by the node
        repair.wait(10)
        print([handle.result(10) for handle in handles[1:]])

        again = handles[0].fork(before="price", args=["order 0", 2000])  # the shelf is not reserved again
        print(again.result(10))


if __name__ == "__main__":
    main()
