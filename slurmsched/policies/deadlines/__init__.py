"""Deadlines by leases (Chronus, SoCC'21): assign time slots to jobs, admit promises, and choose GPUs.

Pure decisions on columns. Optimal planning needs the extra ``deadlines``; without it the greedy plan keeps deadlines.
"""
