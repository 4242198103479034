-- Executions and background tasks are found newest first by what became of them, by name and by the code of a
-- failure. A suspended one tells what it waits for.
-- A node that knows an older schema leaves the new columns empty: what ends there is in the lane 'ended'.
-- compatible from 2

ALTER TABLE tasks ADD COLUMN waits   TEXT; -- JSON: what a suspended one waits for, told by its worker
ALTER TABLE tasks ADD COLUMN name    TEXT COLLATE "C"; -- from the tags: the workflow, the background task
ALTER TABLE tasks ADD COLUMN outcome TEXT COLLATE "C"; -- of one that has ended, how
ALTER TABLE tasks ADD COLUMN code    TEXT COLLATE "C"; -- of one that has failed, why
CREATE INDEX tasks_newest ON tasks (
  (CASE WHEN job IS NULL THEN 'execution ' ELSE 'task ' END ||
   CASE WHEN state = 'fulfilled' THEN coalesce(outcome, 'ended')
   WHEN state = 'pending' AND parked THEN 'waiting'
   WHEN state = 'acquired' AND job IS NOT NULL AND started_at IS NULL THEN 'claimed'
   WHEN state = 'acquired' THEN 'running' ELSE state END), created_at, id
);
CREATE INDEX tasks_named ON tasks (
  name,
  (CASE WHEN job IS NULL THEN 'execution ' ELSE 'task ' END ||
   CASE WHEN state = 'fulfilled' THEN coalesce(outcome, 'ended')
   WHEN state = 'pending' AND parked THEN 'waiting'
   WHEN state = 'acquired' AND job IS NOT NULL AND started_at IS NULL THEN 'claimed'
   WHEN state = 'acquired' THEN 'running' ELSE state END), created_at, id
) WHERE name IS NOT NULL;
CREATE INDEX tasks_failed ON tasks (code, created_at, id) WHERE code IS NOT NULL;
