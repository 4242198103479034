"""The smallest workflow. Run it twice: the second time its result is read, not made again."""

import holdfast as hf

app = hf.App()


@hf.step
def greet(name: str) -> str:
    print(f"greeting {name}")
    return f"Hello, {name}!"


@app.workflow
async def hello(names: list[str]) -> str:
    greetings = [await greet(name) for name in names]
    return " ".join(greetings)


if __name__ == "__main__":
    handle = hello.with_options(id="hello-1").start(["Ada", "Grace"])
    print(handle.result())
