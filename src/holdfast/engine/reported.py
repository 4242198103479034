"""What becomes of the progress that steps and background tasks report.

1. Only a heartbeat of whoever holds the task reports. The latest report of each step counts; of many steps at
   once, the latest few are kept.
2. It outlives the claim: the next attempt finds it. A step that is recorded has no progress any more.
3. An execution that begins again, and a generation that does, has none.
"""

from msgspec.structs import replace

from holdfast.engine.working_set import WorkingSet
from holdfast.protocol import limits
from holdfast.protocol.records import Millis, Task
from holdfast.protocol.reported import ProgressUpdate, ReportedProgress, read_reported, reported_text


def report(task: Task, update: ProgressUpdate, now: Millis) -> Task:
    told = ReportedProgress(update.step, now, update.fraction, update.data)
    others = [each for each in read_reported(task.progress) if each.step != update.step]
    return replace(task, progress=reported_text([*others, told][-limits.progress_steps_max :]))


def drop_reported(task_id: str, step: str, ws: WorkingSet) -> None:
    """The step is recorded."""
    task = ws.task(task_id)
    if task is None or task.progress is None:
        return
    kept = [each for each in read_reported(task.progress) if each.step != step]
    if (text := reported_text(kept)) != task.progress:
        ws.put_task(replace(task, progress=text))
