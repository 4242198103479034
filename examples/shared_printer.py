"""A lock and a pool that workflows share: one letter at a time on the printer, two scans at a time."""

import holdfast as hf

app = hf.App()


@hf.step
def print_page(page: str, token: int) -> None:
    assert token > 0  # hand it to the printer, which refuses a smaller one


@app.workflow
async def letter(name: str) -> int:
    async with hf.permits("scanner", 2):
        await hf.sleep(0.05)
    async with hf.lock("printer-3", timeout="5m") as lock:
        await print_page(f"Dear {name},", lock.token)
        await print_page(f"Yours, for {name}", lock.token)
        return lock.token


if __name__ == "__main__":
    handles = [app.start(letter, name) for name in ("Ada", "Grace", "Barbara")]
    tokens = [handle.result() for handle in handles]
    print(f"{len({*tokens})} letters, one after the other")
