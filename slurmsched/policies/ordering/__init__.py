"""Built-in orderings of pending jobs."""
