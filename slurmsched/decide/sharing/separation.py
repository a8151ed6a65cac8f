"""Separation: the guests that go on with GPUs of their own, now that some are free. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...cluster.state import View
from ...policies.deadlines.lease_schedule import can_be_stopped
from ...policies.selection.free_nodes import FreeNodes
from ...policies.sharing import expected_speeds, gains_of_pairs
from ...policies.sharing_candidates import Sharers
from ..rules import SharingRules
from .pairing import guests_and_hosts, sharers_of


def separate(view: View, nodes: FreeNodes, rules: SharingRules) -> None:
    """Start guests on GPUs that are free on nodes where nobody starts, those first that lose most where they are.

    They are those that would not join their host if all they had to wait for were the restart (``apart_s``), by the
    rule that made the pair: ``pair_gain_s``. Each saves its work.
    """
    if not np.isfinite(rules.apart_s):
        return
    taken = nodes.of_started()
    for guest in _worst_first(view, rules):
        if not nodes.jobs.resources.counts.gpus.any():
            return
        nodes.start(guest, taken)


def _worst_first(view: View, rules: SharingRules) -> Iterator[int]:
    """Yield the rows of the guests whose pair is a loss."""
    jobs, (guests, hosts) = view.running, guests_and_hosts(view.running)
    stoppable = can_be_stopped(jobs)[guests]
    guests, hosts = guests[stoppable], hosts[stoppable]
    if not len(guests):
        return
    packing, at = rules.packing(), np.arange(len(guests))
    mine, theirs = _sharers(view, guests, rules), _sharers(view, hosts, rules)
    speeds = expected_speeds(mine, at, theirs, at, packing)
    theirs = replace(theirs, speed=_without_each(guests, hosts, speeds[1]))
    gain_s = gains_of_pairs(mine, np.full(len(guests), rules.apart_s), at, theirs, at, speeds, packing)
    for place in np.lexsort((jobs.job_id[guests], gain_s)).tolist():
        if -np.inf < gain_s[place] < 0.0:
            yield int(guests[place])


def _sharers(view: View, rows: IntArray, rules: SharingRules) -> Sharers:
    nobody = np.zeros(len(rows), dtype=np.bool_)
    return sharers_of(view.running, rows, view.remaining.median_s[rows], nobody, rules)


def _without_each(guests: IntArray, hosts: IntArray, speed: FloatArray) -> FloatArray:
    """Return the speed that each host would have without that guest: the least beside its other ones, 1 alone."""
    left = np.ones(len(guests))
    for at in range(len(guests)):
        others = (hosts == hosts[at]) & (guests != guests[at])
        left[at] = speed[others].min(initial=1.0)
    return left
