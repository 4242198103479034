"""One process at work: connection, streams, claims, heartbeat, outbox, stopping, and the bridges to it."""
