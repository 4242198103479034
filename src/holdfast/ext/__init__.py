"""Adapters to other libraries. None of them is imported unless you ask for it."""
