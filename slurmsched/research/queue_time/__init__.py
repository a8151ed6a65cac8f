"""A public benchmark of queue-time prediction: logs with real waits, baselines, and what ``eta`` would have said."""
