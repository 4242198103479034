"""The attacks that `make bench-attacks` carries out, one function each.

An attack is an async function that takes a `Victim` and does its worst for a few seconds, over loopback. Add
yours to the list it belongs to:

- `MEMORY`: what counts is the server's peak of resident memory.
- `STALLS`: what counts is how long a bystander's `promise.create` waits meanwhile, on SQLite and PostgreSQL.
- `DEADLINES`: the same, for many timers that are due at one instant.
"""

from bench.attackers import http, management, neighbours, size, wide
from bench.attackers.victim import Attack

MEMORY: list[Attack] = [*http.ATTACKS, *size.ATTACKS, *management.SIZES, *wide.MEMORY]
STALLS: list[Attack] = [*neighbours.STALLS, *management.STALLS, *wide.STALLS]
DEADLINES: list[Attack] = [*neighbours.DEADLINES]
