"""Explanations: sentences about one view and its plan."""
