"""Forecasts of runtimes: the baseline, the trained model, and which of them is active."""
