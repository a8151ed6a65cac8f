"""What is ahead of running jobs: how long they still need, when their GPUs come free. One rule for each question."""
