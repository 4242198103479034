"""An expense waits for a person, for up to three days, and holds nothing meanwhile: no thread, no lease."""

from queue import SimpleQueue

import holdfast as hf

app = hf.App()
mailbox: SimpleQueue[str] = SimpleQueue()  # the boss's


def ask_the_boss(expense: str, promise_id: str) -> None:
    print(f"mail to the boss: {expense}? Settle {promise_id}")
    mailbox.put(promise_id)


def pay(expense: str) -> None:
    print(f"paid: {expense}")


@app.workflow
async def expense(what: str) -> str:
    approval = hf.promise(bool, timeout="3d")
    await hf.run(ask_the_boss, what, approval.id)
    try:
        approved = await approval
    except hf.TimedOut:
        return "nobody answered"
    if not approved:
        return "refused"
    await hf.run(pay, what)
    return "paid"


if __name__ == "__main__":
    handle = app.start(expense, "a kettle")  # without an id of yours: each run is another expense
    app.resolve(mailbox.get(), True)  # from a web page, a chat bot, `holdfast promises resolve`
    print(handle.result())
