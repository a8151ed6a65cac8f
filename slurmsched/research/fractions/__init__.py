"""Jobs with fractions of GPUs that fill a cluster: what of its GPUs each placement can give away."""
