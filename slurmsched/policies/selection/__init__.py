"""Selection: the pending jobs that start now, on which nodes, and the running jobs that yield to them."""
