"""Trials of the policy: blocks of time with it and without it, counted, and ended where they harm."""
