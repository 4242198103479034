"""Three stages, joined by queues, working at the same time: fetch, translate, publish."""

import holdfast as hf

app = hf.App()


def fetch(number: int) -> str:
    return f"article {number}"


def translate(text: str) -> str:
    return text.upper()


def publish(text: str) -> None:
    print(f"published {text}")


@app.workflow
async def pipeline(count: int) -> int:
    fetched: hf.Queue[str | None] = hf.Queue(size_max=2)
    translated: hf.Queue[str | None] = hf.Queue(size_max=2)

    async def fetch_all() -> None:
        for number in range(count):
            await fetched.put(await hf.run(fetch, number))
        await fetched.put(None)

    async def translate_all() -> None:
        while (text := await fetched.get()) is not None:
            await translated.put(await hf.run(translate, text))
        await translated.put(None)

    published = 0
    async with hf.scope() as stages:
        stages.spawn(fetch_all())
        stages.spawn(translate_all())
        while (text := await translated.get()) is not None:
            await hf.run(publish, text)
            published += 1
    return published


if __name__ == "__main__":
    print(app.start(pipeline, 5).result(), "articles")
