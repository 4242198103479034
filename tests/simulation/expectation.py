"""The app that the workloads run on, its ledger, and what must have come of them in the end."""

from __future__ import annotations

from collections.abc import Callable, Container

import holdfast as hf
from holdfast.store.memory import MemoryStore
from holdfast.testing import Ledger
from tests.testing.random_workflow import app as random_app

app = hf.App()
ledger = Ledger()
repaired: set[str] = set()  # what works by now, outside of everything that is simulated
for workflow in random_app.registry:
    app.registry.add(workflow)


class Expectation:
    """Found out while the workloads run."""

    def __init__(self) -> None:
        self.exactly: dict[str, list[str]] = {}  # effects, by workload
        self.tasks: dict[str, None] = {}  # background tasks whose effect is their own id
        self.begun: Container[str] = ()  # those whose function ever began
        self.looks: dict[str, Callable[[MemoryStore], list[str]]] = {}

    def look(self, store: MemoryStore, now: int) -> list[str]:
        wrong: list[str] = []
        for look in self.looks.values():
            wrong += look(store)
        wanted = sorted(effect for effects in self.exactly.values() for effect in effects)
        wanted += [task_id for task_id in self.tasks if _has_completed(store, task_id)]
        left = [*wanted]
        surplus: list[str] = []
        for effect in ledger.entries:
            if effect in left:
                left.remove(effect)
            elif not (effect in self.tasks and self._may_have_run(effect)):
                surplus.append(effect)
        if left or surplus:
            wrong.append(f"missing effects {left}, surplus {surplus}")
        wrong += [f"{key} is {task.state}" for key, task in store.tasks.items() if task.state != "fulfilled"]
        return wrong

    def _may_have_run(self, task_id: str) -> bool:
        """It did not complete, and nobody knows how far it came; but it did begin."""
        return task_id in self.begun


def _has_completed(store: MemoryStore, task_id: str) -> bool:
    task = store.tasks.get(task_id)
    return task is not None and task.job is not None and task.job.outcome == "COMPLETED"
