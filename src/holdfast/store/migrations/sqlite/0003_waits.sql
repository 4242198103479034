-- Who is forgotten waits for nothing any more. What lies below the awaiter itself goes with it, so this index
-- holds only the few others: as a rule it is not written when an execution suspends.

CREATE INDEX callbacks_outside ON callbacks (awaiter)
  WHERE substr(awaited, 1, length(awaiter) + 1) NOT IN (awaiter || ':', awaiter || '.');
