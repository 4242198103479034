"""Background tasks: declaring, sending, results, and running one attempt."""
