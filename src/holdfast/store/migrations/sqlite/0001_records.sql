-- Promises, tasks, who waits for whom, schedules. Text is compared bytewise; instants are milliseconds.

CREATE TABLE promises (
  id         TEXT    NOT NULL PRIMARY KEY,
  state      TEXT    NOT NULL,
  param      TEXT    NOT NULL,  -- JSON {headers?, data?}
  value      TEXT    NOT NULL,  -- JSON {headers?, data?}
  tags       TEXT    NOT NULL,  -- JSON {name: value}
  timeout_at INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  settled_at INTEGER,
  ikc        TEXT,
  iku        TEXT,
  branch     TEXT,              -- from the tags, for preloads
  origin     TEXT,              -- from the tags, for call trees
  watched    INTEGER NOT NULL   -- somebody depends on it: settle it when its deadline passes
);
CREATE INDEX promises_due    ON promises (timeout_at) WHERE state = 'pending' AND watched = 1;
CREATE INDEX promises_branch ON promises (branch)     WHERE branch IS NOT NULL;
CREATE INDEX promises_origin ON promises (origin, id) WHERE origin IS NOT NULL;

CREATE TABLE tasks (
  id          TEXT    NOT NULL PRIMARY KEY,
  state       TEXT    NOT NULL,
  version     INTEGER NOT NULL,
  target      TEXT    NOT NULL,
  dialect     TEXT    NOT NULL,
  timer       INTEGER NOT NULL,
  priority    INTEGER NOT NULL,
  timeout_at  INTEGER NOT NULL,
  created_at  INTEGER NOT NULL,
  resumes     INTEGER NOT NULL,
  due_at      INTEGER,           -- the lease's end, or the next offer
  parked      INTEGER NOT NULL,
  pid         TEXT,
  ttl         INTEGER,
  corr_id     TEXT,
  woken_by    TEXT,
  acquired_at INTEGER,
  started_at  INTEGER,
  bounces     INTEGER NOT NULL,
  retries     INTEGER NOT NULL,
  error       TEXT,
  poll_group  TEXT,              -- from the target: its group, if it is polled
  claim_group TEXT               -- the same, if any worker of the group may claim it
);
CREATE INDEX tasks_due    ON tasks (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX tasks_offers ON tasks (claim_group, priority DESC, created_at, id)
  WHERE state = 'pending' AND parked = 0 AND claim_group IS NOT NULL;
CREATE INDEX tasks_leases ON tasks (pid) WHERE state = 'acquired';

CREATE TABLE callbacks (
  awaited TEXT NOT NULL,
  awaiter TEXT NOT NULL,
  PRIMARY KEY (awaited, awaiter)
) WITHOUT ROWID;

CREATE TABLE listeners (
  promise TEXT NOT NULL,
  address TEXT NOT NULL,
  dialect TEXT NOT NULL,
  PRIMARY KEY (promise, address)
) WITHOUT ROWID;

CREATE TABLE schedules (
  id              TEXT    NOT NULL PRIMARY KEY,
  cron            TEXT    NOT NULL,
  promise_id      TEXT    NOT NULL,
  promise_timeout INTEGER NOT NULL,
  promise_param   TEXT    NOT NULL,
  promise_tags    TEXT    NOT NULL,
  created_at      INTEGER NOT NULL,
  next_run_at     INTEGER NOT NULL,
  last_run_at     INTEGER,
  timezone        TEXT,
  overlap         TEXT,
  catch_up        INTEGER,
  dialect         TEXT    NOT NULL
);
CREATE INDEX schedules_due ON schedules (next_run_at);

CREATE TABLE clock (
  only INTEGER NOT NULL PRIMARY KEY CHECK (only = 1),
  now  INTEGER NOT NULL           -- the latest instant that was ever committed
);
INSERT INTO clock VALUES (1, 0);
