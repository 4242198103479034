"""Small wrong changes to the product: the rule each one breaks, and the suite that must turn red.

A mutant is a pattern that has exactly one place in its layer (syntax.py), and what it becomes. The suites are
the ordinary ones, cut down to what finds the fault soonest. Beside these, `tests/model` has faults planted in
the oracle and `tests/cluster` those planted in histories.
"""

from __future__ import annotations

from tests.mutants.app_catalogue import APP
from tests.mutants.found_catalogue import FOUND
from tests.mutants.look_catalogue import LOOK
from tests.mutants.mend_catalogue import MENDING
from tests.mutants.mutant import Mutant
from tests.mutants.restart_catalogue import RESTARTS
from tests.mutants.share_catalogue import SHARES
from tests.mutants.steer_catalogue import STEER
from tests.mutants.stream_catalogue import STREAMS
from tests.mutants.talk_catalogue import TALKS
from tests.mutants.task_catalogue import TASKS

DIFFERENTIAL = "tests/model/test_differential.py -k every_back_end"


def _conformance(name: str) -> str:
    return f"tests/conformance/test_{name}.py -k memory"


ENGINE = (
    Mutant(
        "a task that is halted again takes the second reason",
        "the first reason stands",
        "engine",
        'if task.state == "halted":\n    return Reply(200, EMPTY)',
        'if task.state == "halted" and data.reason is None:\n    return Reply(200, EMPTY)',
        _conformance("additions"),
    ),
    Mutant(
        "nobody remembers whose lease lapsed",
        "a takeover is known as one",
        "engine",
        "offer(..., lapsed=task.pid)",
        "offer(..., lapsed=None)",
        _conformance("additions"),
    ),
    Mutant(
        "the version is not compared",
        "a stale holder can change nothing",
        "engine",
        'if task.state != "acquired":\n    raise ClaimLost(...)\nif task.version != version:\n    ...',
        'if task.state != "acquired":\n    raise ClaimLost(...)\nif task.version < version:\n    ...',
        DIFFERENTIAL,
    ),
    Mutant(
        "an awaiter past its own deadline is woken",
        "a task past its deadline is fulfilled",
        "engine",
        'task is None or task.state == "fulfilled" or task.timeout_at <= now',
        'task is None or task.state == "fulfilled"',
        _conformance("settlement"),
    ),
    Mutant(
        "a promise settles twice",
        "the first settlement stands",
        "engine",
        "if is_live(promise, now):\n    return settle(promise, data.state, ...)",
        "if promise.timeout_at > now:\n    return settle(promise, data.state, ...)",
        _conformance("promises"),
    ),
    Mutant(
        "a heartbeat extends nothing",
        "a live worker keeps its lease",
        "engine",
        "replace(task, due_at=before_deadline(task, now + task.ttl))",
        "replace(task, due_at=task.due_at)",
        _conformance("tasks"),
    ),
    Mutant(
        "a heartbeat extends leases of others",
        "a lease belongs to one process",
        "engine",
        'task.state == "acquired" and task.pid == pid and is_open(task, now)',
        'task.state == "acquired" and is_open(task, now)',
        _conformance("tasks"),
    ),
    Mutant(
        "an acquire does not raise the version",
        "no two holders share a version",
        "engine",
        'replace(task, state="acquired", version=task.version + 1, **...)',
        'replace(task, state="acquired", version=max(1, task.version), **...)',
        _conformance("tasks"),
    ),
    Mutant(
        "a repeated acquire is recognised by its process alone",
        "only the very acquire whose reply was lost gets the lease again",
        "engine",
        "... and task.pid == data.pid and task.corr_id == request.corr_id",
        "... and task.pid == data.pid",
        _conformance("tasks"),
    ),
    Mutant(
        "the fence is open",
        "who lost the claim can write nothing",
        "engine",
        "target = check_creation(...) if isinstance(action, CreateAction) else None\n"
        "task = held_task(data.id, data.version, ws, now, data.generation or 0)",
        "target = check_creation(request, action.data) if isinstance(action, CreateAction) else None\n"
        "task = ws.task(data.id)\nassert task",
        DIFFERENTIAL,
    ),
    Mutant(
        "a lapsed lease is not offered again",
        "the claim of a dead worker lapses",
        "engine",
        'if task.state == "acquired":\n    crashes.lapse(...)\nelse:\n    ...',
        'if task.state == "halted":\n    crashes.lapse(...)\nelse:\n    ...',
        _conformance("sweep"),
    ),
    Mutant(
        "a promise lives a millisecond too long",
        "a deadline is an instant",
        "engine",
        'return promise.state == "pending" and promise.timeout_at > now',
        'return promise.state == "pending" and promise.timeout_at >= now',
        _conformance("time"),
    ),
    Mutant(
        "a suspension registers one callback",
        "whatever is awaited wakes",
        "engine",
        "for promise in awaited:\n    ws.add_callback(promise.id, task.id)",
        "for promise in awaited[:1]:\n    ws.add_callback(promise.id, task.id)",
        _conformance("settlement"),
    ),
    Mutant(
        "one listener is told",
        "every listener hears of a settlement",
        "engine",
        "for listener in listeners:\n    ws.send(Unblock(...))",
        "for listener in [*listeners][:1]:\n    ws.send(Unblock(...))",
        DIFFERENTIAL,
    ),
    Mutant(
        "a schedule fires an occurrence again",
        "an occurrence has one promise",
        "engine",
        "if ws.promise(promise_id) is None:\n    if ...:\n        continue\n    ...",
        "if promise_id:\n    if ...:\n        continue\n    ...",
        _conformance("schedules"),
    ),
    Mutant(
        "a schedule skips an occurrence",
        "every occurrence that is due is fired",
        "engine",
        "for occurrence in due:\n    promise_id = occurrence_id(schedule, occurrence)\n    ...",
        "for occurrence in due[:1]:\n    promise_id = occurrence_id(schedule, occurrence)\n    ...",
        _conformance("schedules"),
    ),
    Mutant(
        "a change of a schedule reaches back",
        "what was due before a schedule changed is fired by the old definition",
        "engine",
        "entry = fire_due(find_schedule(data.id, ws), ws, now)\n"
        "given = {name: getattr(data, name) for name in names if ...}",
        "entry = find_schedule(data.id, ws)\ngiven = {name: getattr(data, name) for name in names if ...}",
        _conformance("steered_schedules"),
    ),
    Mutant(
        "a paused schedule fires",
        "a paused schedule is never due",
        "engine",
        "schedule = replace(schedule, paused_at=now, next_run_at=limits.instant_ms_max)",
        "schedule = replace(schedule, paused_at=now)",
        _conformance("steered_schedules"),
    ),
    Mutant(
        "a backfill has no end",
        "one backfill looks at a bounded number of occurrences",
        "engine",
        "instant <= until and len(occurrences) < limits.backfill_runs_max",
        "instant <= until",
        _conformance("steered_schedules"),
    ),
    Mutant(
        "a backfill runs what lies ahead",
        "an end of a backfill that lies ahead is now",
        "engine",
        "until = min(data.until, now)",
        "until = data.until",
        _conformance("steered_schedules"),
    ),
    Mutant(
        "a missed run is made up for though nobody asked",
        "with catchUp 0 what was missed is not fired",
        "engine",
        "now - occurrence <= limits.late_run_ms_max",
        "True",
        _conformance("schedules"),
    ),
    Mutant(
        "a key that another task holds is an answer",
        "a unique key is about one background task",
        "engine",
        "name is not None and other is not None and name != other",
        "False",
        "tests/job_rules/test_unique.py -k memory",
    ),
    Mutant(
        "a cursor is off by one",
        "pages neither skip nor repeat",
        "engine",
        "return page, page[-1] if len(found) > most else until",
        "return page, found[most] if len(found) > most else until",
        _conformance("promises"),
    ),
    Mutant(
        "an execution is forgotten too soon",
        "retention takes what is over, and nothing else",
        "engine",
        "return not is_live(promise, now) and settled_at < before",
        "return settled_at < before or not is_live(promise, now)",
        "tests/node/test_retention.py",
    ),
    Mutant(
        "what a task says about how long it is kept ends the whole tree",
        "the owner of a tree says how long that is kept, and nobody else",
        "engine",
        "keep_ms = tags.keep_of(promise.tags) if owner_of(promise) == promise.id else None",
        "keep_ms = tags.keep_of(promise.tags)",
        "tests/node/test_retention.py -k says",
    ),
    Mutant(
        "what is to be kept longer than everything else goes with it",
        "a tree is kept as long as its owner says",
        "engine",
        "return before if keep_ms is None else now - keep_ms",
        "return before if keep_ms is None else max(before or 0, now - keep_ms)",
        "tests/node/test_retention.py -k says",
    ),
)

STORE = (
    Mutant(
        "the log is not synced at a commit",
        "nothing is acknowledged before it is on disk",
        "store",
        "PRAGMA synchronous=FULL",
        "PRAGMA synchronous=NORMAL",
        "tests/crash/test_power_loss.py",
        in_text=True,
    ),
    Mutant(
        "a commit is acknowledged before it is made",
        "nothing is acknowledged before it is on disk",
        "store",
        'execute("BEGIN IMMEDIATE")\n'
        "try:\n"
        "    if ...:\n"
        "        ...\n"
        "    granted.see(self.foreign_version())\n"
        "    result = drive(work(), transaction.perform)\n"
        '    execute("COMMIT")\n'
        "except BaseException:\n"
        "    ...",
        "if transaction.connection.in_transaction:\n"
        '    execute("COMMIT")\n'
        'execute("BEGIN IMMEDIATE")\n'
        "try:\n"
        "    result = drive(work(), transaction.perform)\n"
        "except BaseException:\n"
        "    with suppress(Exception):\n"
        '        execute("ROLLBACK")\n'
        "    raise",
        "tests/crash/test_kill.py",
    ),
    Mutant(
        "listeners of what has settled stay",
        "a listener is told once",
        "store",
        "self._by_ids(sql.DROP_LISTENERS, ws.discharged)",
        "",
        DIFFERENTIAL,
    ),
    Mutant(
        "the latest instant is not stored",
        "time never goes back, not across restarts either",
        "store",
        "if clock is not None:\n    self.connection.execute(sql.SET_CLOCK, (clock, clock))",
        "",
        "tests/store/test_sqlite.py",
    ),
    Mutant(
        "the file is readable by everybody",
        "a database belongs to its owner",
        "store",
        "os.open(path, os.O_CREAT | os.O_RDWR, 0o600)",
        "os.open(path, os.O_CREAT | os.O_RDWR, 0o644)",
        "tests/store/test_sqlite.py",
    ),
    Mutant(
        "rows are read without their locks",
        "two nodes never decide on the same record at once",
        "store",
        "ORDER BY p.id FOR {how}) ",
        "ORDER BY p.id) ",
        "tests/cluster/test_many_nodes.py tests/cluster/test_linearizability.py",
        in_text=True,
    ),
    Mutant(
        "a claim lets a task expire beside who begins to listen",
        "whoever listens to a promise is told when it settles",
        "store",
        "self._claimed |= found - self._asked",
        "",
        "tests/store/test_postgres.py",
    ),
    Mutant(
        "a node decides by its own clock",
        "the database's clock is the judge",
        "store",
        "return await self._read_clock()",
        "return step.reading",
        "tests/store/test_postgres.py -k clock_of_the_database",
    ),
    Mutant(
        "a node may stand still in a transaction forever",
        "a node that stands still does not stop the others",
        "store",
        "idle_transaction_ms: Final = 2_000",
        "idle_transaction_ms: Final = 0",
        "tests/cluster/test_kills.py -k stands_still",
    ),
    Mutant(
        "what was forgotten still waits",
        "who has the id of a forgotten execution is not woken by what that one waited for",
        "store",
        'self.add("drop_waits", list(ws.forgotten))',
        "pass",
        "tests/node/test_retention.py",
    ),
)

NODE = (
    Mutant(
        "a timer is forgotten",
        "what is due is carried out at its instant",
        "node",
        "if self.is_sooner(instant):\n    self._next = instant\n    self._set_timer()",
        "if self.is_sooner(instant):\n    self._next = instant",
        "tests/node/test_timers.py",
    ),
    Mutant(
        "the clock goes back",
        "an instant once used is never undercut",
        "node",
        "reading >= self._latest",
        "reading",
        "tests/node/test_clock.py",
    ),
    Mutant(
        "the queue has no end",
        "everything that can grow has a bound",
        "node",
        "queued + len(submission.requests) > queue_requests_max",
        "queued + len(submission.requests) > queue_requests_max**2",
        "tests/node/test_group_commit.py",
    ),
    Mutant(
        "a failed commit is answered as if it had been made",
        "an unknown outcome is told as one",
        "node",
        "unknown = refuse(failure_of(error))",
        "unknown = Reply(200, None)",
        "tests/node/test_group_commit.py tests/store/test_sqlite.py",
    ),
    Mutant(
        "what a worker did not read is dropped with it",
        "a message that was not read goes to somebody else",
        "node",
        "self._office.deliver(self._empty())",
        "self._empty()",
        "tests/node/test_message_router.py",
    ),
)

WORKER = (
    Mutant(
        "the order of observations is not recorded",
        "every replay sees the same winner",
        "workflow",
        "self._write(self._recorder.observation(promise_id, journal.place))",
        "",
        "tests/workflow/test_execution.py tests/workflow/test_replay.py",
    ),
    Mutant(
        "replay compares nothing",
        "code that does not match its record is halted",
        "workflow",
        "known and not self._is_as_recorded(promise_id, operation)",
        "known and not promise_id and not self._is_as_recorded(promise_id, operation)",
        "tests/workflow/test_execution.py",
    ),
    Mutant(
        "a step starts before the choices that led to it are durable",
        "nothing is acted upon before it is durable",
        "workflow",
        "if self._progress.unwritten or self._writer.leading:\n"
        "    await self._write()\n"
        "    if self._writer.is_lost or self._loop.time() >= self.lease_ends_s:\n"
        "        raise ClaimGone(self.id)\n"
        "    learnt = True",
        "for promise_id, step in steps:\n"
        "    self._steps.start(promise_id, step, self.claim, None, at_once=False)\n"
        "steps = []\n"
        "if self._progress.unwritten:\n"
        "    await self._write()\n"
        "    learnt = True",
        "tests/workflow/test_durable_before_effects.py",
    ),
    Mutant(
        "a step is tried forever",
        "attempts are bounded",
        "steps",
        "policy.attempts is not None and attempt >= policy.attempts",
        "policy.attempts is not None and attempt > policy.attempts + 1_000",
        "tests/steps/test_retry.py",
    ),
    Mutant(
        "a suspended execution is resumed though others drove it",
        "memory is trusted only if nobody else drove the execution",
        "workflow",
        "claim.task.version != self.version + 1 or self._writer.is_lost",
        "self._writer.is_lost",
        "tests/host/test_loop.py tests/workflow/test_execution.py",
    ),
    Mutant(
        "the second mismatch is the reason",
        "the first mismatch is kept",
        "workflow",
        "if self.fault is not None:\n    self._count += 1\n    return f'{self._below}{self._count}'",
        "",
        "tests/workflow/test_mismatch.py",
    ),
    Mutant(
        "a failed attempt is not logged",
        "nothing fails in silence",
        "steps",
        "self._tell_failed(error, delay_s)",
        "",
        "tests/workflow/test_failure_logs.py",
    ),
    Mutant(
        "an error may name any module",
        "nothing is imported because a payload says so",
        "payloads",
        "found: Any = sys.modules.get(module)",
        "found: Any = __import__(module) if module else None",
        "tests/test_security.py -k imports_nothing",
    ),
)

RUNTIME = (
    Mutant(
        "fibers run last in, first out",
        "fibers run in the order in which they became ready",
        "runtime",
        "popleft = ready.popleft",
        "popleft = ready.pop",
        "tests/runtime/test_order.py",
    ),
    Mutant(
        "a permit goes to whoever came last",
        "waiters are served in the order of arrival",
        "runtime",
        "self._line.popitem(last=False)",
        "self._line.popitem(last=True)",
        "tests/runtime/test_semaphore.py",
    ),
    Mutant(
        "a future of another execution is awaited",
        "what belongs to one execution is refused in every other",
        "runtime",
        "if future.scheduler is not scheduler and not future._admit(scheduler):\n"
        "    error, future = ...\n"
        "else:\n"
        "    ...",
        "if False:\n    error, future = ...\nelse:\n    ...",
        "tests/runtime/test_ownership.py",
    ),
    Mutant(
        "an interrupt replaces a cancellation that a shield holds",
        "a cancellation that is held is never lost",
        "runtime",
        "isinstance(error, Cancelled) or not isinstance(held, Cancelled)",
        "True",
        "tests/runtime/test_shield.py",
    ),
    Mutant(
        "steps inside a shield are told of a cancellation",
        "what runs inside a shield is out of reach",
        "runtime",
        "if block.is_shield:\n    above = self.scheduler.attempt",
        "if False:\n    above = self.scheduler.attempt",
        "tests/runtime/test_shield.py",
    ),
    Mutant(
        "items are kept by a gather that nobody waits for",
        "what a fiber never saw goes back",
        "runtime",
        "taken = ...\nif taken:\n    unclaim(taken)",
        "taken = ...\nif False:\n    unclaim(taken)",
        "tests/runtime/test_unreceived.py",
    ),
    Mutant(
        "callbacks of signals run on the stack of a fiber",
        "callbacks run outside of fibers",
        "runtime",
        "if scheduler is not None:\n    scheduler.signalled += signals\nelse:\n    run_callbacks(signals)",
        "if False:\n    scheduler.signalled += signals\nelse:\n    run_callbacks(signals)",
        "tests/runtime/test_signal_callbacks.py",
    ),
    Mutant(
        "calls of a timeout that expired go on",
        "leaving a timeout cancels what was called inside",
        "runtime",
        "self._block.call_off(self._expiry)",
        "pass",
        "tests/workflow/test_called_off.py",
    ),
)

SERVER = (
    Mutant(
        "the id inside a fence is not checked",
        "a prefix holds for every id in a request",
        "server",
        'if check is not None:\n    check(inner, grant)\nelse:\n    grant.require("id", inner.id or "")',
        "if check is not None:\n    check(inner, grant)",
        "tests/server/test_auth.py",
    ),
    Mutant(
        "a prefix covers whatever begins like it",
        "a prefix ends at a delimiter",
        "protocol",
        "return name.startswith(prefix) and (len(name) <= edge or name[edge] in delimiters)",
        "return name.startswith(prefix)",
        "tests/server/test_auth.py",
    ),
    Mutant(
        "the scope of a caller is not handed on",
        "a prefix holds for what a request finds without naming it",
        "server",
        "return replace(item, data=data, scope=grant.prefix)",
        "return replace(item, data=data)",
        "tests/server/test_auth.py",
    ),
    Mutant(
        "private addresses are posted to",
        "nobody can make the server call into its network",
        "server",
        "not all(is_public(address) for address in addresses)",
        "not any(is_public(address) or address for address in addresses)",
        "tests/server/test_push.py",
    ),
    Mutant(
        "a token without an end is accepted",
        "a JWT must expire",
        "server",
        '["exp"]',
        "[]",
        "tests/server/test_auth.py",
    ),
    Mutant(
        "any Host is answered",
        "a name that resolves to this machine leads nowhere",
        "server",
        "self._guards_host and host is not None and host not in self._known_hosts",
        "not self._guards_host and host is not None and host not in self._known_hosts",
        "tests/server/test_origin.py",
    ),
    Mutant(
        "a body has no end",
        "everything that can grow has a bound",
        "server",
        "len(exchange.body) > self.limits.body_bytes_max",
        "len(exchange.body) > self.limits.body_bytes_max**2",
        "tests/server/test_limits.py tests/server/test_bad_input.py",
    ),
    Mutant(
        "trailers count",
        "headers after a body are dropped",
        "server",
        "if not self._in_head:\n    ...",
        "if self.parser is None:\n    ...",
        "tests/server/test_attacks.py -k trailers",
    ),
    Mutant(
        "an empty line keeps a connection open",
        "an idle connection is closed",
        "server",
        "if self._in_head:\n    self._head_bytes += len(data)\nelse:\n    ...",
        "self._idle_since = None\nif self._in_head:\n    self._head_bytes += len(data)\nelse:\n    ...",
        "tests/server/test_attacks.py -k empty_line",
    ),
    Mutant(
        "bodies that do not end are kept",
        "requests hold a bounded number of bytes together",
        "server",
        "self.read_bytes > self.bytes_max",
        "self.read_bytes < 0",
        "tests/server/test_attacks.py -k do_not_end",
    ),
    Mutant(
        "answers that nobody reads are kept",
        "unread answers hold a bounded number of bytes together",
        "server",
        "self._unread_bytes + count > self.bytes_max",
        "self._unread_bytes + count < 0",
        "tests/server/test_attacks.py -k nobody_reads",
    ),
    Mutant(
        "a rate counts requests",
        "every envelope counts",
        "server",
        "(left if wait else left - count, now)",
        "(left if wait else left - wanted, now)",
        "tests/server/test_rate.py",
    ),
)

CLIENT = (
    Mutant(
        "a claim is repeated",
        "what is not idempotent is sent once",
        "protocol",
        '{..., "task.get", ...}',
        '{..., "task.get", "task.claim", "task.fulfill", ...}',
        "tests/client/test_http.py",
    ),
    Mutant(
        "what failed is put back in the wrong order",
        "requests are applied in the order in which they were issued",
        "client",
        "self.queue.extendleft(reversed(batch))",
        "self.queue.extendleft(batch)",
        "tests/client/test_http.py",
    ),
)

MUTANTS = (
    *ENGINE,
    *STORE,
    *NODE,
    *WORKER,
    *RUNTIME,
    *SERVER,
    *CLIENT,
    *TASKS,
    *SHARES,
    *STREAMS,
    *RESTARTS,
    *MENDING,
    *TALKS,
    *APP,
    *LOOK,
    *STEER,
    *FOUND,
)
