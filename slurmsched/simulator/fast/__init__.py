"""The direct executor on one pool of equal nodes: specialised event loops, the fastest ones."""
