-- Promises, tasks, who waits for whom, schedules. Text is compared bytewise; instants are milliseconds.
-- An id begins with its root id, so in the order of the keys an execution lies in one piece.

CREATE TABLE promises (
  id         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  state      TEXT COLLATE "C" NOT NULL,
  param      TEXT NOT NULL, -- JSON {headers?, data?}
  value      TEXT NOT NULL, -- JSON {headers?, data?}
  tags       TEXT NOT NULL, -- JSON {name: value}
  timeout_at BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  settled_at BIGINT,
  ikc        TEXT COLLATE "C",
  iku        TEXT COLLATE "C",
  branch     TEXT COLLATE "C", -- from the tags, for preloads
  origin     TEXT COLLATE "C", -- from the tags, for call trees
  watched    BOOLEAN NOT NULL -- somebody depends on it: settle it when its deadline passes
);
CREATE INDEX promises_due    ON promises (timeout_at) WHERE state = 'pending' AND watched;
CREATE INDEX promises_branch ON promises (branch)     WHERE branch IS NOT NULL;
CREATE INDEX promises_origin ON promises (origin, id) WHERE origin IS NOT NULL;

CREATE TABLE tasks (
  id          TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  state       TEXT COLLATE "C" NOT NULL,
  version     BIGINT NOT NULL,
  target      TEXT COLLATE "C" NOT NULL,
  dialect     TEXT COLLATE "C" NOT NULL,
  timer       BOOLEAN NOT NULL,
  priority    BIGINT NOT NULL,
  timeout_at  BIGINT NOT NULL,
  created_at  BIGINT NOT NULL,
  resumes     BIGINT NOT NULL,
  due_at      BIGINT, -- the lease's end, or the next offer
  parked      BOOLEAN NOT NULL,
  pid         TEXT COLLATE "C",
  ttl         BIGINT,
  corr_id     TEXT COLLATE "C",
  woken_by    TEXT COLLATE "C",
  acquired_at BIGINT,
  started_at  BIGINT,
  bounces     BIGINT NOT NULL,
  retries     BIGINT NOT NULL,
  error       TEXT,
  poll_group  TEXT COLLATE "C", -- from the target: its group, if it is polled
  claim_group TEXT COLLATE "C" -- the same, if any worker of the group may claim it
);
CREATE INDEX tasks_due    ON tasks (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX tasks_offers ON tasks (claim_group, priority DESC, created_at, id)
  WHERE state = 'pending' AND NOT parked AND claim_group IS NOT NULL;
CREATE INDEX tasks_leases ON tasks (pid) WHERE state = 'acquired';

CREATE TABLE callbacks (
  awaited TEXT COLLATE "C" NOT NULL,
  awaiter TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (awaited, awaiter)
);

CREATE TABLE listeners (
  promise TEXT COLLATE "C" NOT NULL,
  address TEXT COLLATE "C" NOT NULL,
  dialect TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (promise, address)
);

CREATE TABLE schedules (
  id              TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  cron            TEXT NOT NULL,
  promise_id      TEXT COLLATE "C" NOT NULL,
  promise_timeout BIGINT NOT NULL,
  promise_param   TEXT NOT NULL,
  promise_tags    TEXT NOT NULL,
  created_at      BIGINT NOT NULL,
  next_run_at     BIGINT NOT NULL,
  last_run_at     BIGINT,
  timezone        TEXT COLLATE "C",
  overlap         TEXT COLLATE "C",
  catch_up        BIGINT,
  dialect         TEXT COLLATE "C" NOT NULL
);
CREATE INDEX schedules_due ON schedules (next_run_at);

CREATE TABLE clock (
  one BIGINT NOT NULL PRIMARY KEY CHECK (one = 1),
  now BIGINT NOT NULL -- the latest instant that was ever committed
);
INSERT INTO clock VALUES (1, 0);
