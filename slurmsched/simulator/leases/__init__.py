"""Chronus' own simulation: rounds of five minutes, leases, promises, and the schedulers it is compared with."""
