"""The shell round the decisions in virtual time."""
