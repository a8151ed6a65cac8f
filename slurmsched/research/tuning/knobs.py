"""Knobs: the settings of a site that the tuner varies, and the values it may try."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from ...config import Settings
from ...policies.contract import find_ordering
from ...policies.presets import find_preset

LIMITS_S = (60.0, 120.0, 200.0, 300.0, 600.0)
WIDEST = (1, 2, 4, 8)
LENT = 0.2  #: most nodes of a profiling partition, as a share
SCALES = (0.25, 0.5, 2.0, 4.0)  #: factors on all thresholds of weighted fair queueing


@dataclass(frozen=True)
class Knobs:
    """Settings that are varied; T_prof, N_prof and C_prof of the paper are the first three."""

    profile_s: float  #: after which a job leaves the profiling partition (profile.t_s)
    profile_gpus: int  #: most GPUs of a job that starts there (profile.n_max)
    profile_nodes: int  #: of the profiling partition; 0 where there is none
    capacity: int  #: largest sum of share scores on a GPU, 0 for no sharing (share.capacity)
    ordering: str  #: with its parameters (policy.ordering)

    @property
    def plain(self) -> Knobs:
        """The settings with every ineffective one at its first value, so that equivalent ones are equal."""
        return self if self.profile_nodes else replace(self, profile_s=LIMITS_S[0], profile_gpus=WIDEST[0])

    @property
    def by_setting(self) -> dict[str, float | int | str]:
        """The values by the keys of the settings file; the nodes are those of a partition in slurm.conf."""
        return {
            "profile.t_s": self.profile_s,
            "profile.n_max": self.profile_gpus,
            "nodes of profile.partition": self.profile_nodes,
            "share.capacity": self.capacity,
            "policy.ordering": self.ordering,
        }

    def applied(self, settings: Settings) -> Settings:
        """Return *settings* with these values, and with the powers that they need.

        A power to requeue running jobs stays as it is: it is up to the site.
        """
        profiles, shares = self.profile_nodes > 0, self.capacity > 0
        power = replace(settings.power, order=True, profile=profiles, share=shares)
        policy, preset = settings.policy, find_preset(settings.policy.preset)
        if preset is None or preset.ordering != self.ordering:
            policy = replace(policy, ordering=self.ordering, preset="")
        profile, share = settings.profile, settings.share
        if profiles:
            power = replace(power, partition=True)
            profile = replace(profile, t_s=self.profile_s, n_max=self.profile_gpus)
            profile = replace(profile, n_least=min(profile.n_least, profile.n_max))
            profile = replace(profile, t_least_s=min(profile.t_least_s, profile.t_s))
        if shares:
            share = replace(share, capacity=self.capacity)
        return replace(settings, power=power, policy=policy, profile=profile, share=share)


@dataclass(frozen=True)
class KnobSpace:
    """The values that each setting may take."""

    profile_nodes: tuple[int, ...] = (0,)
    profile_gpus: tuple[int, ...] = (1,)
    capacities: tuple[int, ...] = (0,)
    orderings: tuple[str, ...] = ("fifo",)

    @classmethod
    def of(cls, current: Knobs, *, nodes: int, gpus: int, profiling: bool, sharing: bool, widest: int = 1) -> KnobSpace:
        """Build the space for *nodes* of *gpus* GPUs, which leaves enough for the *widest* job.

        Profiling and sharing keep their values unless the cluster can have them.
        """
        most = min(int(nodes * LENT), nodes - -(-widest // gpus))
        node_counts = {0, *(number for number in (1, 2, 4, 8, 16, 32) if number <= most)} if profiling else set()
        return cls(
            tuple(sorted(node_counts | {current.profile_nodes})),
            tuple(sorted({number for number in WIDEST if number <= gpus} | {current.profile_gpus})),
            (0, 1, 2, 3) if sharing else (current.capacity,),
            (current.ordering, *_relatives(current.ordering)),
        )

    def drawn(self, most: int, seed: int, current: Knobs) -> tuple[Knobs, ...]:
        """Draw at most *most* distinct settings at random; *current* comes first."""
        limits_s = tuple(sorted({*LIMITS_S, current.profile_s}))
        grid = product(limits_s, self.profile_gpus, self.profile_nodes, self.capacities, self.orderings)
        others = dict.fromkeys(Knobs(*values).plain for values in grid)
        others.pop(current.plain, None)
        chosen = np.random.default_rng(seed).permutation(len(others))[: max(0, most - 1)]
        each = tuple(others)
        return (current, *(each[place] for place in chosen.tolist()))


def _relatives(line: str) -> Sequence[str]:
    """Return the same ordering with other parameters."""
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
