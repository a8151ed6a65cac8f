"""Failures and repairs of nodes."""

from __future__ import annotations

import numpy as np

from ...errors import ConfigError
from ..cluster_spec import Failures
from ..slurmctld.state import Outages

MOST = 1_000_000


def no_outages() -> Outages:
    """Return no failures."""
    return Outages(np.empty(0), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.bool_))


def outages(nodes: int, failures: Failures, since_s: float, until_s: float) -> Outages:
    """Generate the failures of *nodes* nodes that begin in [since_s, until_s), each with its repair.

    ConfigError for more than a million.
    """
    cycle_s = failures.mtbf_s + failures.repair_s
    expected = nodes * (until_s - since_s) / cycle_s
    if expected > MOST:
        raise ConfigError(f"nodes that fail every {failures.mtbf_s:.0f} s make {expected:.0f} failures; {MOST} at most")
    random = np.random.default_rng(failures.seed)
    times, which, up = [], [], []
    for node in range(nodes):
        now_s = since_s + random.exponential(failures.mtbf_s)
        while now_s < until_s:
            back_s = now_s + random.exponential(failures.repair_s)
            times += [now_s, back_s]
            which += [node, node]
            up += [False, True]
            now_s = back_s + random.exponential(failures.mtbf_s)
    order = np.argsort(np.array(times), kind="stable")
    return Outages(
        np.array(times, dtype=np.float64)[order],
        np.array(which, dtype=np.int64)[order],
        np.array(up, dtype=np.bool_)[order],
    )
