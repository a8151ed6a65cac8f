"""Training of the learned order of jobs, and its judgement on weeks that it never saw."""
