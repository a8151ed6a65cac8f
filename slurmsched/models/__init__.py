"""Predict: from history to forecasts."""
