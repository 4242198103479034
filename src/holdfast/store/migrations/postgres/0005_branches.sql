-- A preload reads the first promises of a branch, in the order of their ids: a walk along an index, whatever
-- the branch holds. A node that knows an older schema uses it like the one before.
-- compatible from 2

DROP INDEX promises_branch;
CREATE INDEX promises_branch ON promises (branch, id) WHERE branch IS NOT NULL;
