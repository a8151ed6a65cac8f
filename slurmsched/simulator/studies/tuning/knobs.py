"""Knobs: what the tuner turns, and which positions it may try."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from ....policies.contract import find_ordering

LIMITS_S = (60.0, 120.0, 200.0, 300.0, 600.0)
WIDEST = (1, 2, 4, 8)
LENT = 0.2  #: share of the nodes that a profiling partition takes at most
SCALES = (0.25, 0.5, 2.0, 4.0)  #: by which all thresholds of weighted fair queueing are multiplied


@dataclass(frozen=True)
class Knobs:
    """Settings that can be simulated; T_prof, N_prof and C_prof of the paper are the first three."""

    profile_s: float  #: after which a job leaves the profiling partition (profile.t_s)
    profile_gpus: int  #: most GPUs of a job that starts there (profile.n_max)
    profile_nodes: int  #: of the profiling partition; 0 where there is none
    capacity: int  #: largest sum of share scores on a GPU, 0 where nobody shares (share.capacity)
    ordering: str  #: with its parameters (policy.ordering)

    @property
    def plain(self) -> Knobs:
        """The same, with everything that has no effect in the position that comes first."""
        return self if self.profile_nodes else replace(self, profile_s=LIMITS_S[0], profile_gpus=WIDEST[0])


@dataclass(frozen=True)
class KnobSpace:
    """Which positions there are."""

    profile_nodes: tuple[int, ...] = (0,)
    profile_gpus: tuple[int, ...] = (1,)
    capacities: tuple[int, ...] = (0,)
    orderings: tuple[str, ...] = ("fifo",)

    @classmethod
    def of(cls, current: Knobs, *, nodes: int, gpus: int, profiling: bool, sharing: bool, widest: int = 1) -> KnobSpace:
        """The positions for *nodes* of *gpus* GPUs, of which the *widest* job still finds enough.

        *profiling* and *sharing* are left as they are unless they can be simulated.
        """
        most = min(int(nodes * LENT), nodes - -(-widest // gpus))
        node_counts = {0, *(number for number in (1, 2, 4, 8, 16, 32) if number <= most)} if profiling else set()
        return cls(
            tuple(sorted(node_counts | {current.profile_nodes})),
            tuple(sorted({number for number in WIDEST if number <= gpus} | {current.profile_gpus})),
            (0, 1, 2) if sharing else (current.capacity,),
            (current.ordering, *_relatives(current.ordering)),
        )

    def drawn(self, most: int, seed: int, current: Knobs) -> tuple[Knobs, ...]:
        """At most so many positions by chance, each that makes a difference once; *current* comes first."""
        limits_s = tuple(sorted({*LIMITS_S, current.profile_s}))
        grid = product(limits_s, self.profile_gpus, self.profile_nodes, self.capacities, self.orderings)
        others = dict.fromkeys(Knobs(*values).plain for values in grid)
        others.pop(current.plain, None)
        chosen = np.random.default_rng(seed).permutation(len(others))[: max(0, most - 1)]
        each = tuple(others)
        return (current, *(each[place] for place in chosen.tolist()))


def _relatives(line: str) -> Sequence[str]:
    """The same ordering with other parameters."""
    ordering = find_ordering(line)
    thresholds = ordering.settings.get("thresholds")
    if thresholds is None:
        return ()
    settings = dict(ordering.settings)
    found = []
    for scale in SCALES:
        steps = ",".join(f"{float(step) * scale:g}" for step in thresholds.split(","))
        found.append(
            " ".join(
                [ordering.name, *(f"{name}={value}" for name, value in (settings | {"thresholds": steps}).items())]
            )
        )
    return found
