"""Many steps at once, a few at a time, and one result of them all."""

import asyncio

import holdfast as hf

app = hf.App()


async def count_words(page: str) -> int:
    await asyncio.sleep(0.05)  # a download
    return len(page.split())


@app.workflow
async def count(pages: list[str]) -> int:
    at_most = hf.Semaphore(4)

    async def one(page: str) -> int:
        async with at_most:
            return await hf.run(count_words, page)

    return sum(await hf.gather([one(page) for page in pages]))


if __name__ == "__main__":
    pages = [f"page {number} has " + "many " * number + "words" for number in range(12)]
    print(app.start(count, pages).result(), "words")
