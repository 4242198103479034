-- How far the steps of an execution, or a background task, have come: as JSON, as they told it.

ALTER TABLE tasks ADD COLUMN progress TEXT;
