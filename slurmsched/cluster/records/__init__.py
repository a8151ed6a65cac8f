"""What is recorded about jobs and nodes, as columns."""
