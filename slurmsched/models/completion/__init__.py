"""Predicted starts and finishes: calibrated, logged and compared with what happened."""
