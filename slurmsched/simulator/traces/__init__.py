"""Job traces of other clusters, read into a Workload, with a note on everything that was changed."""

from __future__ import annotations

from .native import write
from .registry import FORMATS, read
from .trace import Note, Trace, TraceError

__all__ = ["FORMATS", "Note", "Trace", "TraceError", "read", "write"]
