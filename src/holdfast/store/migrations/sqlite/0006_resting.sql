-- Executions that wait, and what is halted, are counted without a look at what is finished.

CREATE INDEX tasks_resting ON tasks (state, due_at) WHERE state IN ('suspended', 'halted');
