"""Records about jobs and nodes, as columns."""
