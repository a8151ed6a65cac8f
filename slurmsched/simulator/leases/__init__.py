"""Chronus' own simulation: rounds of five minutes, leases, promises."""
