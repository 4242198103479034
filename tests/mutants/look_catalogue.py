"""Faults in finding executions and in the management API."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

LOOK = (
    Mutant(
        "what a suspended execution waits for is not kept",
        "info needs no worker awake",
        "engine",
        "suspended(task, waits_text(data.waits, bound), now)",
        "suspended(task, None, now)",
        "tests/conformance/test_executions.py -k memory",
    ),
    Mutant(
        "a wait begins when its execution was last suspended, and not when the promise was created",
        "whatever is stuck says since when",
        "engine",
        "replace(wait, since=promise.created_at, due_at=...)",
        "replace(wait, due_at=...)",
        "tests/conformance/test_executions.py -k memory",
    ),
    Mutant(
        "of the keys of a queue the emptiest are shown",
        "a queue shows its fullest keys",
        "engine",
        '(-each.pending, -each.counted, each.key is None, each.key or "")',
        '(each.pending, -each.counted, each.key is None, each.key or "")',
        "tests/management/test_api.py -k memory",
    ),
    Mutant(
        "a search shows what a deadline has ended as it was",
        "a status that is shown is the one that was asked for",
        "engine",
        "data.status is None or view.status in data.status",
        "True",
        "tests/conformance/test_executions.py -k memory",
    ),
    Mutant(
        "a delayed execution counts as one that may be taken",
        "what waits for an instant is waiting",
        "engine",
        'status = "waiting"',
        'status = "pending"',
        "tests/conformance/test_executions.py -k memory",
    ),
    Mutant(
        "a search of executions forgets whose it is",
        "a caller sees what its prefix covers",
        "node",
        "scan = replace(scan, wanted=replace(scan.wanted, scope=scope))",
        "scan = replace(scan, wanted=replace(scan.wanted, scope=None))",
        "tests/conformance/test_executions.py -k memory",
    ),
    Mutant(
        "a count of executions forgets whose they are",
        "a caller sees what its prefix covers",
        "node",
        "within_reach(replace(tally, wanted=replace(tally.wanted, scope=scope)))",
        "within_reach(replace(tally, wanted=replace(tally.wanted, scope=None)))",
        "tests/conformance/test_executions.py -k memory",
    ),
    Mutant(
        "the lane of a background task that was claimed is not the one that its index has",
        "every store keeps the lanes of the engine",
        "store",
        "started_at IS NULL THEN 'claimed' ",
        "started_at IS NOT NULL THEN 'claimed' ",
        "tests/job_rules/test_found_tasks.py -k sqlite",
        in_text=True,
    ),
    Mutant(
        "a page of executions goes on one too early",
        "no execution is shown twice",
        "store",
        "(t.created_at, t.id) < (?, ?)",
        "(t.created_at, t.id) <= (?, ?)",
        "tests/conformance/test_executions.py -k sqlite",
        in_text=True,
        slow=True,  # pages without end: the suite runs into its limit
    ),
    Mutant(
        "the management API takes whatever it is given",
        "a misspelt filter does not find everything",
        "server",
        '_refuse_unknown("parameter", query, names(route.query))',
        '_refuse_unknown("parameter", {}, names(route.query))',
        "tests/management/test_handler.py",
    ),
    Mutant(
        "the management API settles executions by hand",
        "an execution is not settled from outside",
        "server",
        'if tags.TARGET in promise["tags"]:\n    raise NotToBeSettled(...)',
        "if tags.TARGET in promise:\n    raise NotToBeSettled(...)",
        "tests/management/test_api.py -k memory",
    ),
    Mutant(
        "a start under a taken id is answered with whatever has it",
        "an id is an agreement",
        "server",
        '_check_same(promise, {"data": param.data})',
        '_check_same(promise, promise["param"])',
        "tests/management/test_api.py -k memory",
    ),
)
