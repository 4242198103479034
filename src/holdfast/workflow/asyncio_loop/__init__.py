"""asyncio inside a workflow: an event loop that comes out the same on every replay.

The root fiber of the execution runs the loop (main.py). asyncio's own tasks run on its `call_soon`, first in
first out, until all of them wait; then the root waits for the next completion, as any fiber does. So the
rules of fibers hold for tasks: one completion, then everything that follows from it, then the next.

1. Nothing of the world is reachable from it: refusals.py.
2. Time is that of the last completion the code has seen, and timers are durable: timers.py.
3. What a task waits for may be asyncio's or ours: waits.py, durable.py.
4. Nothing is ordered by address: tasks and futures have hashes of their own, so that sets of them (asyncio
   has many) have the same order in every run: numbered.py.

Reading order: loop, waits, durable, timers, numbered, strands, main.
"""
