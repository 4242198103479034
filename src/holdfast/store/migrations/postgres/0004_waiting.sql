-- What has waited longest goes first: by the instant from which a task may begin, not by its creation. And
-- background tasks are found by what became of them, however many there are of another kind.
-- A node that knows an older schema sorts what it claims, which is slower, and claims the same.
-- compatible from 2

DROP INDEX tasks_offers;
CREATE INDEX tasks_offers ON tasks (
  claim_group, priority DESC,
  (CASE WHEN job IS NULL THEN created_at ELSE coalesce(acquired_at, created_at) END), created_at, id
) WHERE state = 'pending' AND NOT parked AND claim_group IS NOT NULL;
CREATE INDEX tasks_outcome ON tasks (
  (CASE WHEN state = 'fulfilled' THEN (job::jsonb ->> 'outcome') COLLATE "C" ELSE state END), id
) WHERE job IS NOT NULL;
