-- The keys of a fair queue take turns: whoever has the lowest turn goes first. A claim finds the best tasks of
-- each key without a look at those of the others. And executions wait in queues, too: one that was claimed
-- counts from then on until it is over.

ALTER TABLE tasks ADD COLUMN turn       INTEGER NOT NULL DEFAULT 0; -- 0: its queue has none
ALTER TABLE tasks ADD COLUMN place      TEXT; -- JSON; of an execution that has a place in a queue
ALTER TABLE tasks ADD COLUMN entered_at INTEGER; -- from the place: when it was claimed first

DROP INDEX tasks_offers;
CREATE INDEX tasks_offers ON tasks (
  claim_group, priority DESC, turn,
  (CASE WHEN job IS NULL THEN created_at ELSE coalesce(acquired_at, created_at) END), created_at, id
) WHERE state = 'pending' AND parked = 0 AND claim_group IS NOT NULL;
CREATE INDEX tasks_lines ON tasks (
  (claim_group || CASE WHEN entered_at IS NOT NULL THEN '/+' WHEN job_key IS NULL THEN '/' ELSE '/=' || job_key END),
  priority DESC, turn,
  (CASE WHEN job IS NULL THEN created_at ELSE coalesce(acquired_at, created_at) END), created_at, id
) WHERE state = 'pending' AND parked = 0 AND substr(claim_group, 1, 6) = 'queue.';
DROP INDEX tasks_held;
CREATE INDEX tasks_held ON tasks (claim_group, job_key)
  WHERE (job IS NOT NULL AND state = 'acquired') OR (entered_at IS NOT NULL AND state <> 'fulfilled');
DROP INDEX tasks_parked;
CREATE INDEX tasks_parked ON tasks (claim_group)
  WHERE state = 'pending' AND parked = 1 AND (job IS NOT NULL OR place IS NOT NULL);
CREATE INDEX tasks_placed ON tasks ((claim_group || '/=' || job_key), id)
  WHERE place IS NOT NULL AND state <> 'fulfilled';
