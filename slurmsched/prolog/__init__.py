"""Programs for compute nodes: shell and stand-alone scripts that import nothing of ours; see docs/profiling.md."""
