"""One process at work: connection, streams, claims, heartbeat, outbox, shutdown, and the bridge to it."""
