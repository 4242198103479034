"""The hands: claims tasks, drives executions, heartbeats, suspends, fulfils."""
