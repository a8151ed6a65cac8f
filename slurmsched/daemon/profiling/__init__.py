"""The profiling partition beside the cycles: arrivals, its rules and its nodes."""
