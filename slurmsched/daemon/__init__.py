"""The process that runs cycles in real time."""
