"""The questions that the daemon answers: one table, and a module for each subject."""
