"""How fast jobs train: measured speeds of models, and the types of GPUs."""
