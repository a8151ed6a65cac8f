"""Commands that run, control or show the daemon."""
