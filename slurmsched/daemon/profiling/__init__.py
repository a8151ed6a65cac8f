"""The profiling partition: arrivals, its rules and its nodes."""
