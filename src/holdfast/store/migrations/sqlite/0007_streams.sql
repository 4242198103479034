-- How many elements the streams of an execution have: one row for all of them, made by the first append.

CREATE TABLE streams (
  id     TEXT NOT NULL PRIMARY KEY, -- of the execution's promise
  record TEXT NOT NULL -- JSON
) WITHOUT ROWID;
