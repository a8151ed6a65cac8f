"""HTTP: the questions of users for portals and scripts, asked of the daemon with the user's own token."""
