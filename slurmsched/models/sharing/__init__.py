"""Predictions of how much jobs slow each other down on the same GPUs."""
