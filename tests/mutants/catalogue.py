"""Small wrong changes to the product: the rule each one breaks, and the suite that must turn red.

A mutant is a text that stands exactly once in one file, and what it becomes. The suites are the ordinary ones,
cut down to what finds the fault soonest; beside these, `tests/model` has faults planted in the oracle and
`tests/cluster` those planted in histories.
"""

from __future__ import annotations

from tests.mutants.found_catalogue import FOUND
from tests.mutants.mutant import Mutant
from tests.mutants.task_catalogue import TASKS

DIFFERENTIAL = "tests/model/test_differential.py -k every_back_end"


def _conformance(name: str) -> str:
    return f"tests/conformance/test_{name}.py -k memory"


ENGINE = (
    Mutant(
        "the version is not compared",
        "a stale holder can change nothing",
        "engine/tasks.py",
        '        raise ClaimLost(f"The task {task_id!r} is {task.state}, not acquired")\n    if task.version != version:',
        '        raise ClaimLost(f"The task {task_id!r} is {task.state}, not acquired")\n    if task.version < version:',
        DIFFERENTIAL,
    ),
    Mutant(
        "an awaiter past its own deadline is woken",
        "a task past its deadline is fulfilled",
        "engine/transitions.py",
        ' or task.state == "fulfilled" or task.timeout_at <= now:',
        ' or task.state == "fulfilled":',
        _conformance("settlement"),
    ),
    Mutant(
        "a promise settles twice",
        "the first settlement stands",
        "engine/promises.py",
        "    if is_live(promise, now):\n        return settle(",
        "    if promise.timeout_at > now:\n        return settle(",
        _conformance("promises"),
    ),
    Mutant(
        "a heartbeat extends nothing",
        "a live worker keeps its lease",
        "engine/tasks.py",
        "due_at=before_deadline(task, now + task.ttl)",
        "due_at=task.due_at",
        _conformance("tasks"),
    ),
    Mutant(
        "a heartbeat extends leases of others",
        "a lease belongs to one process",
        "engine/tasks.py",
        'task.state == "acquired" and task.pid == pid and is_open',
        'task.state == "acquired" and is_open',
        _conformance("tasks"),
    ),
    Mutant(
        "an acquire does not raise the version",
        "no two holders share a version",
        "engine/transitions.py",
        "        version=task.version + 1,",
        "        version=max(1, task.version),",
        _conformance("tasks"),
    ),
    Mutant(
        "a repeated acquire is recognised by its process alone",
        "only the very acquire whose reply was lost gets the lease again",
        "engine/tasks.py",
        "        and task.corr_id == request.corr_id",
        "",
        _conformance("tasks"),
    ),
    Mutant(
        "the fence is open",
        "who lost the claim can write nothing",
        "engine/tasks.py",
        "    held_task(data.id, data.version, ws, now)\n    try:",
        "    find_task(data.id, ws)\n    try:",
        DIFFERENTIAL,
    ),
    Mutant(
        "a lapsed lease is not offered again",
        "the claim of a dead worker lapses",
        "engine/sweep.py",
        '        if task.state == "acquired":  # the lease',
        '        if task.state == "halted":  # the lease',
        _conformance("sweep"),
    ),
    Mutant(
        "a promise lives a millisecond too long",
        "a deadline is an instant",
        "engine/view.py",
        '    return promise.state == "pending" and promise.timeout_at > now',
        '    return promise.state == "pending" and promise.timeout_at >= now',
        _conformance("time"),
    ),
    Mutant(
        "a suspension registers one callback",
        "whatever is awaited wakes",
        "engine/tasks.py",
        "    for promise_id in awaited:\n        ws.add_callback",
        "    for promise_id in [*awaited][:1]:\n        ws.add_callback",
        _conformance("settlement"),
    ),
    Mutant(
        "one listener is told",
        "every listener hears of a settlement",
        "engine/transitions.py",
        "    for listener in listeners:",
        "    for listener in [*listeners][:1]:",
        DIFFERENTIAL,
    ),
    Mutant(
        "a schedule fires an occurrence again",
        "an occurrence has one promise",
        "engine/schedules.py",
        "        if ws.promise(promise_id) is None:",
        "        if promise_id:",
        _conformance("schedules"),
    ),
    Mutant(
        "a schedule skips an occurrence",
        "every occurrence that is due is fired",
        "engine/schedules.py",
        "    for occurrence in due:\n        promise_id",
        "    for occurrence in due[:1]:\n        promise_id",
        _conformance("schedules"),
    ),
    Mutant(
        "a cursor is off by one",
        "pages neither skip nor repeat",
        "engine/scans.py",
        "    return page, page[-1] if len(found) > most else until",
        "    return page, found[most] if len(found) > most else until",
        _conformance("promises"),
    ),
    Mutant(
        "an execution is forgotten too soon",
        "retention takes what is over, and nothing else",
        "engine/retention.py",
        "    return not is_live(promise, now) and settled_at < before",
        "    return settled_at < before or not is_live(promise, now)",
        "tests/node/test_retention.py",
    ),
)

STORE = (
    Mutant(
        "the log is not synced at a commit",
        "nothing is acknowledged before it is on disk",
        "store/sqlite.py",
        "PRAGMA synchronous=FULL",
        "PRAGMA synchronous=NORMAL",
        "tests/crash/test_power_loss.py",
    ),
    Mutant(
        "a commit is acknowledged before it is made",
        "nothing is acknowledged before it is on disk",
        "store/sqlite.py",
        '        execute("BEGIN IMMEDIATE")\n        try:\n            if self._log is not None:\n'
        "                self._log.make_room()\n            result = drive(work(), transaction.perform)\n"
        '            execute("COMMIT")',
        '        if transaction.connection.in_transaction:\n            execute("COMMIT")\n'
        '        execute("BEGIN IMMEDIATE")\n        try:\n            result = drive(work(), transaction.perform)',
        "tests/crash/test_kill.py",
    ),
    Mutant(
        "listeners of what has settled stay",
        "a listener is told once",
        "store/sqlite.py",
        "            self._by_ids(sql.DROP_LISTENERS, ws.discharged)\n        if ws.forgotten",
        "        if ws.forgotten",
        DIFFERENTIAL,
    ),
    Mutant(
        "the latest instant is not stored",
        "time never goes back, not across restarts either",
        "store/sqlite.py",
        "        if clock is not None:\n            self.connection.execute(sql.SET_CLOCK, (clock, clock))\n",
        "",
        "tests/store/test_sqlite.py",
    ),
    Mutant(
        "the file is readable by everybody",
        "a database belongs to its owner",
        "store/sqlite.py",
        "os.O_CREAT | os.O_RDWR, 0o600",
        "os.O_CREAT | os.O_RDWR, 0o644",
        "tests/store/test_sqlite.py",
    ),
    Mutant(
        "rows are read without their locks",
        "two nodes never decide on the same record at once",
        "store/postgres_statements.py",
        "ORDER BY p.id FOR {how}) ",
        "ORDER BY p.id) ",
        "tests/cluster/test_many_nodes.py tests/cluster/test_linearizability.py",
    ),
    Mutant(
        "a claim lets a task expire beside who begins to listen",
        "whoever listens to a promise is told when it settles",
        "store/postgres_transaction.py",
        "        self._claimed |= found - self._asked\n",
        "",
        "tests/store/test_postgres.py",
    ),
    Mutant(
        "a node decides by its own clock",
        "the database's clock is the judge",
        "store/postgres_transaction.py",
        "            case Now():\n                return await self._read_clock()",
        "            case Now():\n                return step.reading",
        "tests/cluster/test_many_nodes.py -k skewed",
    ),
    Mutant(
        "a node may stand still in a transaction for ever",
        "a node that stands still does not stop the others",
        "store/postgres_statements.py",
        '    "idle_in_transaction_session_timeout": str(idle_transaction_ms),',
        '    "idle_in_transaction_session_timeout": "0",',
        "tests/cluster/test_kills.py -k stands_still",
    ),
    Mutant(
        "what was forgotten still waits",
        "who has the id of a forgotten execution is not woken by what that one waited for",
        "store/postgres_parts.py",
        '            self.add("drop_waits", list(ws.forgotten))',
        "            pass",
        "tests/node/test_retention.py",
    ),
)

NODE = (
    Mutant(
        "a timer is forgotten",
        "what is due is carried out at its instant",
        "node/node.py",
        "        if self._is_sooner(instant):\n            self._next_due = instant\n            self._set_timer()",
        "        if self._is_sooner(instant):\n            self._next_due = instant",
        "tests/node/test_timers.py",
    ),
    Mutant(
        "the clock goes back",
        "an instant once used is never undercut",
        "node/clock.py",
        "        if reading >= self._latest:",
        "        if reading:",
        "tests/node/test_clock.py",
    ),
    Mutant(
        "the queue has no end",
        "everything that can grow has a bound",
        "node/node.py",
        "        if queued + count > queue_requests_max:",
        "        if queued + count > queue_requests_max**2:",
        "tests/node/test_group_commit.py",
    ),
    Mutant(
        "a failed commit is answered as if it had been made",
        "an unknown outcome is told as one",
        "node/node.py",
        "        error = done.exception()\n        if error is None:\n            outcome = done.result()\n            self.stats.commits += 1",
        "        error = done.exception()\n        if error is not None:\n            outcome = Outcome([Reply(200, None)] * len(requests), [], None, 0)\n"
        "        elif error is None:\n            outcome = done.result()\n            self.stats.commits += 1",
        "tests/node/test_group_commit.py tests/store/test_sqlite.py",
    ),
    Mutant(
        "what a worker did not read is dropped with it",
        "a message that was not read goes to somebody else",
        "node/post_office.py",
        "            self._office.deliver(unread)\n",
        "",
        "tests/node/test_post_office.py",
    ),
)

WORKER = (
    Mutant(
        "the order of observations is not recorded",
        "every replay sees the same winner",
        "worker/progress.py",
        "                self._note(self.recorder.observation(promise_id, self.place))\n",
        "",
        "tests/worker/test_execution.py tests/worker/test_replay.py",
    ),
    Mutant(
        "replay compares nothing",
        "code that does not match its record is halted",
        "worker/progress.py",
        "        if known:\n            self._compare(promise_id, operation, digest)",
        "        if known and not promise_id:\n            self._compare(promise_id, operation, digest)",
        "tests/worker/test_execution.py",
    ),
    Mutant(
        "a step starts before the choices that led to it are durable",
        "nothing is acted upon before it is durable",
        "worker/execution.py",
        "        if self._pen.unwritten:\n            await self._pen.write()\n            self._check_claim()  # the answer may have come late\n"
        "            learnt = True\n",
        "        for promise_id, step in steps:\n            self._steps.start(promise_id, step, self.info, self._progress.open.__contains__, at_once=False)\n"
        "        steps = []\n        if self._pen.unwritten:\n            await self._pen.write()\n            learnt = True\n",
        "tests/worker/test_execution.py tests/worker/test_replay.py",
    ),
    Mutant(
        "a step is tried for ever",
        "attempts are bounded",
        "worker/retry.py",
        "attempt >= policy.attempts:",
        "attempt > policy.attempts + 1_000:",
        "tests/worker/test_retry.py",
    ),
    Mutant(
        "a suspended execution is resumed though others drove it",
        "memory is trusted only if nobody else drove the execution",
        "worker/execution.py",
        "        if claim.task.version != self.version + 1 or self._pen.is_lost:",
        "        if self._pen.is_lost:",
        "tests/worker/test_loop.py tests/worker/test_execution.py",
    ),
    Mutant(
        "an error may name any module",
        "nothing is imported because a payload says so",
        "worker/fault.py",
        "        found: Any = sys.modules.get(module)",
        "        found: Any = __import__(module)",
        "tests/test_security.py -k imports_nothing",
    ),
)

RUNTIME = (
    Mutant(
        "fibers run last in, first out",
        "fibers run in the order in which they became ready",
        "runtime/scheduler.py",
        "        popleft = ready.popleft",
        "        popleft = ready.pop",
        "tests/runtime/test_order.py",
    ),
    Mutant(
        "a permit goes to whoever came last",
        "waiters are served in the order of arrival",
        "runtime/semaphore.py",
        "popitem(last=False)",
        "popitem(last=True)",
        "tests/runtime/test_semaphore.py",
    ),
)

SERVER = (
    Mutant(
        "the id inside a fence is not checked",
        "a prefix holds for every id in a request",
        "server/access.py",
        '        _check_create(inner, grant)\n    else:\n        grant.require("id", inner.id)',
        "        _check_create(inner, grant)",
        "tests/server/test_auth.py",
    ),
    Mutant(
        "a prefix covers whatever begins like it",
        "a prefix ends at a delimiter",
        "protocol/ids.py",
        "    return name.startswith(prefix) and (len(name) <= edge or name[edge] in delimiters)",
        "    return name.startswith(prefix)",
        "tests/server/test_auth.py",
    ),
    Mutant(
        "the scope of a caller is not handed on",
        "a prefix holds for what a request finds without naming it",
        "server/access.py",
        "    return replace(item, data=data, scope=grant.prefix)",
        "    return replace(item, data=data)",
        "tests/server/test_auth.py",
    ),
    Mutant(
        "private addresses are posted to",
        "nobody can make the server call into its network",
        "server/push.py",
        "not all(is_public(address) for address in addresses)",
        "not any(is_public(address) or address for address in addresses)",
        "tests/server/test_push.py",
    ),
    Mutant(
        "a token without an end is accepted",
        "a JWT must expire",
        "server/auth.py",
        '"require": ["exp"]',
        '"require": []',
        "tests/server/test_auth.py",
    ),
    Mutant(
        "any Host is answered",
        "a name that resolves to this machine leads nowhere",
        "server/origin.py",
        "        if self._guards_host and host is not None",
        "        if not self._guards_host and host is not None",
        "tests/server/test_origin.py",
    ),
    Mutant(
        "a body has no end",
        "everything that can grow has a bound",
        "server/connection.py",
        "            if len(exchange.body) > self.ground.body_bytes_max:",
        "            if len(exchange.body) > self.ground.body_bytes_max**2:",
        "tests/server/test_limits.py tests/server/test_bad_input.py",
    ),
)

CLIENT = (
    Mutant(
        "a claim is repeated",
        "what is not idempotent is sent once",
        "protocol/repeatable.py",
        '        "task.get",\n',
        '        "task.get",\n        "task.claim",\n        "task.fulfill",\n',
        "tests/client/test_http.py",
    ),
    Mutant(
        "what failed is put back in the wrong order",
        "requests are applied in the order in which they were issued",
        "client/packing.py",
        "self.queue.extendleft(reversed(batch))",
        "self.queue.extendleft(batch)",
        "tests/client/test_http.py",
    ),
)

MUTANTS = (*ENGINE, *STORE, *NODE, *WORKER, *RUNTIME, *SERVER, *CLIENT, *TASKS, *FOUND)
