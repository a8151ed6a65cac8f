"""Deadlines by leases (Chronus, SoCC'21): which job gets which slots of time, what can be promised, and on which GPUs.

Pure decisions on columns. Planning needs the extra ``deadlines``; without it a deadline is still kept
by the greedy plan, which needs nothing.
"""
