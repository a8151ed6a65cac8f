"""Predictions of starts and finishes beside the cycles."""
