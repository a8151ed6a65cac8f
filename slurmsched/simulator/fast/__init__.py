"""The direct executor on one pool of equal nodes: event loops made for that alone, the fastest there are."""
