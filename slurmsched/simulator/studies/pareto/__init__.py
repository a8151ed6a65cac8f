"""The preference solver: settings of weighted fair queueing of which none is better in every objective."""
