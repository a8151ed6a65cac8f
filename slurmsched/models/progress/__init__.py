"""The training progress of jobs: their learning curves, and when more training hardly helps."""
