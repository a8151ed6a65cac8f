"""What runs on compute nodes: shell and stand-alone programs that import nothing of ours; see docs/profiling.md."""
