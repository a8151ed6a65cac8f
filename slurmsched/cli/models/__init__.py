"""Commands about trained models."""
