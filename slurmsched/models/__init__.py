"""Prediction models: trained on job history, they forecast runtimes, load and GPU sharing."""
