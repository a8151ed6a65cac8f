"""Deadlines: which are promised, how promises are kept, and what becomes of them."""
