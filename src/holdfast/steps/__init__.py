"""Performing a function: threads, tasks of the loop, child processes, attempts, time limits, dependencies."""
