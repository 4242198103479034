-- How many elements the streams of an execution have: one row for all of them, made by the first append. The lock
-- of the execution's promise is the lock of this row.
-- A node that knows an older schema leaves open what ends with an execution that it settles: its own deadline
-- ends it. And it leaves the row of what it deletes, which says of which execution it is.
-- compatible from 2

CREATE TABLE streams (
  id     TEXT COLLATE "C" NOT NULL PRIMARY KEY, -- of the execution's promise
  record TEXT NOT NULL -- JSON
);
