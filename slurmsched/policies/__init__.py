"""Policies: pure functions over a view."""

from . import admission, placement, preemption, sharing, stopping
from .division import built_in as division
from .ordering import (
    attained_service,
    baselines,
    chronus,
    deadline,
    fair_queueing,
    mlfs,
    mlfs_rl,
    static,
    time_shares,
    training_baselines,
)
from .scaling import fixed_size, gavel, optimus, ordered, pollux, sia, themis
from .selection import built_in, capacity, leases, three_sigma

__all__ = [
    "admission",
    "attained_service",
    "baselines",
    "built_in",
    "capacity",
    "deadline",
    "division",
    "fair_queueing",
    "chronus",
    "leases",
    "mlfs",
    "mlfs_rl",
    "placement",
    "pollux",
    "preemption",
    "fixed_size",
    "gavel",
    "optimus",
    "ordered",
    "sharing",
    "static",
    "sia",
    "stopping",
    "time_shares",
    "training_baselines",
    "themis",
    "three_sigma",
]
