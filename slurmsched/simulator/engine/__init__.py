"""The state under the event loops, in loops that compile: events by time, resources of nodes, and jobs."""
