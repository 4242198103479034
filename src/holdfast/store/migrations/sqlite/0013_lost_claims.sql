-- The last claims of an execution that did not end well, as JSON: for people who look at it.

ALTER TABLE tasks ADD COLUMN lost TEXT;
