"""What the daemon serves: queries on its socket, and metrics over HTTP."""
