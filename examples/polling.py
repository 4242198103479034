"""Ask until it is done. The waits are durable timers: nothing is held between two questions."""

import holdfast as hf

app = hf.App()


def ask_for_status(job: str, question: int) -> str:
    print(f"question {question}: is {job} done?")
    return "done" if question == 3 else "running"


@app.workflow
async def wait_for(job: str, every: float) -> int:
    question = 1
    while await hf.run(ask_for_status, job, question) != "done":
        await hf.sleep(every)
        question += 1
    return question


if __name__ == "__main__":
    print("done after", app.start(wait_for, "the export", 0.2).result(), "questions")
