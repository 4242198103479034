-- Who is forgotten waits for nothing any more. What lies below the awaiter itself goes with it, so this index
-- holds only the few others: as a rule it is not written when an execution suspends.
-- compatible from 2

CREATE INDEX callbacks_outside ON callbacks (awaiter)
  WHERE left(awaited, length(awaiter) + 1) NOT IN (awaiter || ':', awaiter || '.');
