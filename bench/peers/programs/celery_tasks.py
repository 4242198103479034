"""Celery on Redis: fill, or the app that `celery worker` runs.

Prints seconds; a worker prints the time of its first task.
"""

import os
import sys
import time

from celery import Celery, group

url = os.environ["BENCH_REDIS"]
app = Celery("celery_tasks", broker=f"{url}/0", backend=f"{url}/1")
app.conf.update(worker_prefetch_multiplier=64, task_default_queue="bench", result_expires=3600)
has_begun = False


@app.task(name="no_op")
def no_op(number: int) -> int:
    global has_begun
    if not has_begun:
        has_begun = True
        os.write(int(os.environ.get("BENCH_REPORT", "2")), f"{time.time()}\n".encode())
    return number


if __name__ == "__main__":
    count = int(sys.argv[1])
    started = time.perf_counter()
    for start in range(0, count, 1_000):
        group(no_op.s(number) for number in range(start, min(start + 1_000, count))).apply_async()
    print(time.perf_counter() - started, flush=True)
