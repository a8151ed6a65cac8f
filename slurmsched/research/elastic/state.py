"""Elastic applications, the rules of a policy, and the state of both, as the loops that share GPUs take them.

Applications that have come and not ended are in ``rows`` by arrival, those of class *c* from ``first[c]`` on,
``many[c]`` of them. Those that have GPUs are listed in ``at``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...cluster.columns import FloatArray, IntArray

NOW, LEASE, SEEN, EVENTS, INSIDE = range(5)
"""Of ``State.clock``: the moment, when leases end, the sum of applications inside at each event, the number of events,
applications inside."""

SRSF, AFS_L, THEMIS, FAIR, WFQ = range(5)


class ApplicationData(NamedTuple):
    """The applications by arrival, as a policy sees them."""

    service_s: FloatArray
    submit_s: FloatArray
    demand: IntArray
    curve: IntArray
    group: IntArray  #: class
    size_s: FloatArray  #: GPU-seconds on all the GPUs it can use, for a second of work on one
    speed: FloatArray  #: of each curve (row) on 0, 1, ... GPUs


class ElasticRules(NamedTuple):
    """A policy with its parameters."""

    kind: int  #: SRSF, AFS_L, THEMIS, FAIR or WFQ
    gpus: float
    lease_s: float  #: infinite where GPUs are shared anew at arrivals and ends only
    weights: FloatArray  #: of the classes
    limits: IntArray  #: GPUs at most, by lowering of the cap and curve
    overtake: float  #: by which the smaller applications of a class are served earlier, see ``wfq.place``


class State(NamedTuple):
    """The applications inside and their GPUs; filled in place."""

    clock: FloatArray
    rows: IntArray
    first: IntArray
    many: IntArray  #: of each class inside
    served: IntArray  #: how many of each class had GPUs when they were divided last
    wanted: FloatArray  #: GPUs that the applications of each class can use
    left_s: FloatArray  #: work left of each application
    size_factor: FloatArray  #: the work that the policy assumes, over the true one
    clock_at_arrival: FloatArray  #: of ``clock[SEEN]`` when an application came, less what it saw then
    events: FloatArray  #: of ``clock[EVENTS]`` when it came, less one
    running: IntArray  #: number of applications with GPUs, an array of one
    at: IntArray
    gpus: FloatArray  #: of those in ``at``
    pace: FloatArray  #: work done per second, of those in ``at``
    scratch: FloatArray  #: 3 rows for the policies' use
    ints: IntArray  #: 2 rows likewise


def fresh(count: int, groups: IntArray, classes: int, size_factor: FloatArray) -> State:
    """Return the state before the first arrival of *count* applications in *groups*."""
    members = np.bincount(groups, minlength=classes)
    clock = np.zeros(5)
    clock[LEASE] = np.inf
    return State(
        clock,
        np.zeros(count, np.int64),
        np.concatenate(([0], np.cumsum(members)[:-1])).astype(np.int64),
        np.zeros(classes, np.int64),
        np.zeros(classes, np.int64),
        np.zeros(classes),
        np.zeros(count),
        size_factor,
        np.zeros(count),
        np.zeros(count),
        np.zeros(1, np.int64),
        np.zeros(count, np.int64),
        np.zeros(count),
        np.zeros(count),
        np.zeros((3, max(count, classes))),
        np.zeros((2, count), np.int64),
    )
