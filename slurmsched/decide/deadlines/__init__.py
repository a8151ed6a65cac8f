"""Deadlines: admission, planning and outcomes of promises."""
