"""How much jobs disturb each other on the same GPUs."""
