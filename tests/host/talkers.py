"""Processes that talk to one execution and may be killed at any instant: senders, and a worker that receives.

    python -m tests.host.talkers receive URL
    python -m tests.host.talkers send URL SENDER COUNT LEDGER

A sender notes in its ledger what was acknowledged, and goes on from there when it is started again. It does
not know what became of the message after that, so it sends it again under the same key.
"""

import sys
import time
from pathlib import Path

import holdfast as hf
from holdfast.client.errors import ClientError

ID = "listener"


def make_app(url: str, *, worker: bool) -> hf.App:
    app = hf.App(url, worker=worker, lease="2s")

    @app.workflow
    async def listen() -> list[str]:
        seen: list[str] = []
        async for message in hf.mailbox(str):
            if message.value == "stop":
                break
            seen.append(message.value)
        return seen

    return app


def receive(url: str) -> None:
    with make_app(url, worker=True):
        print("ready", flush=True)
        time.sleep(3_600)


def send(url: str, sender: str, count: int, ledger: Path) -> None:
    with make_app(url, worker=False) as app, ledger.open("a+") as notes:
        notes.seek(0)
        begun = len(notes.readlines())
        for number in range(begun, count):
            _tell(app, f"{sender} {number}")
            notes.write(f"{number}\n")
            notes.flush()


def _tell(app: hf.App, message: str) -> None:
    while True:
        try:
            app.tell(ID, message, key=message)
            return
        except ClientError:  # the server is away: under the same key it can be sent again
            time.sleep(0.1)


if __name__ == "__main__":
    if sys.argv[1] == "receive":
        receive(sys.argv[2])
    else:
        send(sys.argv[2], sys.argv[3], int(sys.argv[4]), Path(sys.argv[5]))
