"""What the event loops work on: events by time, resources of nodes, and the state of jobs, in loops that compile."""
