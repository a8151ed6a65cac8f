"""The preference solver: Pareto-optimal settings of weighted fair queueing."""
