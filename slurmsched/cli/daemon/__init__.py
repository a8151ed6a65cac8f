"""Commands that run, steer or show the daemon."""
