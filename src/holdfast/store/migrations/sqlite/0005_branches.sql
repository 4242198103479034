-- A preload reads the first promises of a branch, in the order of their ids: a walk along an index, whatever
-- the branch holds.

DROP INDEX promises_branch;
CREATE INDEX promises_branch ON promises (branch, id) WHERE branch IS NOT NULL;
