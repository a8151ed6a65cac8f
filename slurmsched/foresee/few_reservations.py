"""The bound on what one pass of backfill reserves while a queue is played forward."""

from __future__ import annotations

from dataclasses import replace

from ..cluster.state import View
from ..simulator.slurmctld.slurmconf import SlurmConf

WORK = 10_000
"""Approximate bound on nodes times reservations times sets of partitions in one pass of backfill."""


def with_few_reservations(conf: SlurmConf, view: View) -> SlurmConf:
    """Return *conf* with fewer reservations in a pass of backfill where *view* is of a large cluster.

    Idle GPUs, which no play-forward reads, are not counted.
    """
    sets = len(set(view.pending.partition.codes.tolist()) | {-1 - c for c in view.running.partition.codes.tolist()})
    most = max(1, int(WORK // max(1, len(view.nodes) * sets)))
    rules = conf.rules._replace(reservations=min(conf.rules.reservations, most), counts_idle=False)
    return replace(conf, rules=rules)
