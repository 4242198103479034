"""A graph of tasks is ordinary code in a workflow: all of them, any of them, a quorum of them."""

import holdfast as hf

app = hf.App()


@app.task(retry=hf.Retry.fixed([0.05] * 10))
def ask(source: str) -> hf.TaskResult[int, hf.TaskError]:
    if source == "broken":
        return hf.TaskResult(err=hf.TaskError("NO_ANSWER", source))
    return hf.TaskResult(ok=len(source))


@app.workflow
async def everyone(sources: list[str]) -> int:
    results = await hf.gather([hf.call(ask, source) for source in sources])
    return sum(result.ok_value for result in results)


async def answer_of(source: str) -> int:
    return (await hf.call(ask, source)).ok_value


@app.workflow
async def anyone(sources: list[str]) -> int:
    return await hf.any_of([answer_of(source) for source in sources])


@app.workflow
async def most(sources: list[str]) -> list[int]:
    answers: list[int] = []
    for future in hf.as_completed([hf.call(ask, source) for source in sources]):
        result = await future
        if result.is_ok:
            answers.append(result.ok_value)
        if len(answers) > len(sources) // 2:
            break
    return sorted(answers)


if __name__ == "__main__":
    print("everyone:", app.start(everyone, ["a", "bb", "ccc"]).result())
    print("anyone:", app.start(anyone, ["broken", "bb"]).result())
    print("most:", app.start(most, ["a", "broken", "a"]).result())
