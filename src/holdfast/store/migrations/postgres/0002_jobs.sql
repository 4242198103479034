-- Plain background tasks: what is known about one lies beside its task; queues hold their limits.

ALTER TABLE tasks ADD COLUMN job        TEXT; -- JSON; NULL for the task of a workflow
ALTER TABLE tasks ADD COLUMN job_key    TEXT COLLATE "C"; -- from the job: what limits per key are counted by
ALTER TABLE tasks ADD COLUMN job_unique TEXT COLLATE "C"; -- from the job: queue/key, held by one open task
CREATE UNIQUE INDEX tasks_unique ON tasks (job_unique)
  WHERE job_unique IS NOT NULL AND state <> 'fulfilled';
CREATE INDEX tasks_held   ON tasks (claim_group, job_key) WHERE state = 'acquired' AND job IS NOT NULL;
CREATE INDEX tasks_parked ON tasks (claim_group) WHERE state = 'pending' AND parked AND job IS NOT NULL;

CREATE TABLE queues (
  name   TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  gated  BOOLEAN NOT NULL, -- paused, or with limits: a claim must look at it
  record TEXT NOT NULL -- JSON
);
