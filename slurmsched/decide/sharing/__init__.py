"""Which jobs share GPUs, where, and which pairs end."""
