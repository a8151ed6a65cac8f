"""Administration commands."""
