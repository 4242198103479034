"""`holdfast schedules create --task NAME`: a schedule whose runs are background tasks.

It makes the same request as `app.schedules.create`. With `--app` the task is what that app declares: its
queue, retries, priority and arguments. Without it, the options say so: no node knows what an app declares.
"""

import argparse
from typing import Any, Final

from holdfast.cli.calls import call_arguments
from holdfast.cli.failures import UsageError
from holdfast.cli.job_actions import declared_task
from holdfast.cli.options import add_declared, duration
from holdfast.jobs.options import SendOptions
from holdfast.jobs.schedules import Recurrence
from holdfast.protocol.jobs import check_queue
from holdfast.protocol.requests import ScheduleCreate
from holdfast.steps.providers import Providers

# What a promise has, and a background task says by other options.
_not_of_tasks: Final = {
    "func": "--func",
    "data": "--data",
    "raw_data": "--raw-data",
    "headers": "--header",
    "target": "--target",
    "promise_id": "--promise-id",
}


def add_task_options(options: Any) -> None:
    options.add_argument("--task", metavar="NAME", help="the background task")
    add_declared(options)
    options.add_argument(
        "--good-for",
        metavar="DURATION",
        type=duration,
        help="a run that has not begun after this time expires",
    )
    options.add_argument(
        "--time-limit", metavar="DURATION", type=duration, help="how long one attempt may take"
    )


def check_no_task_options(arguments: argparse.Namespace) -> None:
    """Raises UsageError for those that say something about a task where none is named."""
    for name in ("app", "attempts", "good_for", "time_limit"):
        if getattr(arguments, name) is not None:
            raise UsageError(f"--{name.replace('_', '-')} is about a background task: give --task, too")


def task_schedule(arguments: argparse.Namespace) -> ScheduleCreate:
    """The request that makes it. Raises what the library would."""
    for name, option in _not_of_tasks.items():
        if getattr(arguments, name) not in (None, []):
            raise UsageError(f"--task names what is run, by the workers of its queue: leave out {option}")
    task, queue_priority, payloads, providers = declared_task(arguments, arguments.task)
    if arguments.queue is not None:
        check_queue(arguments.queue)
    args, kwargs = call_arguments(arguments)
    recurrence = Recurrence(
        id=arguments.id,
        work=task,
        cron=arguments.cron,
        timezone=arguments.timezone,
        overlap=arguments.overlap,
        catch_up=arguments.catch_up,
        good_for_ms=arguments.good_for,
        options=SendOptions(
            queue=arguments.queue,
            priority=arguments.priority,
            limit_key=arguments.limit_key,
            timeout_ms=arguments.timeout,
            time_limit_s=None if arguments.time_limit is None else arguments.time_limit / 1000,
            tags=dict(arguments.tags),
        ),
        args=args,
        kwargs=kwargs,
        is_declared=False,
    )
    return recurrence.request(
        payloads, "", queue_priority(arguments.queue or task.queue), providers or Providers()
    )
