"""The daemon's servers: queries on its socket, and metrics over HTTP."""
