"""Records that nodes send of jobs, received and checked."""
