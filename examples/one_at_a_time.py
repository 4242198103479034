"""One at a time by key: a queue per repository, a build that replaces the one before it, a start put off.

`per_key=1` lets one build of a repository run. `overlap` says what a second start does: "wait" in line,
"reject" (an error for the caller), or "replace" (the one that runs is asked to cancel).

    python examples/one_at_a_time.py
"""

import time

import holdfast as hf

app = hf.App()
app.queue("builds", per_key=1)
run = f"{time.time_ns():x}"  # ids of this run: the file may be started again


def compile_code(commit: str) -> str:
    return f"built {commit}"


@app.workflow
async def build(repository: str, commit: str) -> str:
    await hf.sleep("0.2s")
    return await hf.run(compile_code, commit)


def main() -> None:
    shop = build.with_options(queue="builds", limit_key=f"shop-{run}")
    newest_only = shop.with_options(overlap="replace")

    with app:
        first = newest_only.with_options(id=f"first-{run}").start("shop", "a1")
        second = newest_only.with_options(id=f"second-{run}").start("shop", "b2")
        try:
            first.result(10)
        except hf.errors.ExecutionCancelled:
            print("a1 was replaced")
        print(second.result(10))

        waiting = [shop.start("shop", commit) for commit in ("c3", "d4")]
        print([handle.result(10) for handle in waiting])

        later = build.with_options(delay="0.3s").start("shop", "nightly")
        print(later.info().state, "then", later.result(10))


if __name__ == "__main__":
    main()
