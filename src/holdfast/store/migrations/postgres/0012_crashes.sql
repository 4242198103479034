-- How often in a row the worker of an execution died or could not run it, without progress.

ALTER TABLE tasks ADD COLUMN crashes BIGINT NOT NULL DEFAULT 0;
