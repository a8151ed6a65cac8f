"""The shell round the cycle in real time."""
