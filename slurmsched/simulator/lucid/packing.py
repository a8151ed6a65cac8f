"""What Lucid knows of the jobs of a trace when it packs them."""

from __future__ import annotations

import numpy as np

from ...cluster.columns import FloatArray
from ...models.sharing.sharing_model import SharingModel
from ..cluster_spec import Mode, PackingSetup, Sharing
from ..pair_rules import curve_of, use_of
from ..workload.workload import Workload
from .belief import believed

PROFILE_S = 200.0  #: a job that has run so long is known (Lucid section 4.6)
LEAST = 0.3  #: no pair is made in which one is believed to keep less, whatever it would save


def pack(
    jobs: Workload,
    sharing: Sharing,
    told_s: FloatArray,
    *,
    history: Workload | None = None,
    scores: SharingModel | None = None,
    modes: tuple[Mode, ...] = (),
    profile_s: float = PROFILE_S,
    uneven: bool = True,
) -> PackingSetup:
    """Indolent packing of *jobs* on a fleet with *sharing*: beliefs, known profiles, and pairs that are weighed.

    *told_s* are forecast runtimes. *sharing* holds measured pairs only: what it leaves out is not believed in. A trace
    that says nothing of GPU use is believed to be as the table of pairs has it. *history* is what ran before *jobs*, on
    the same clock. Unless *uneven*, only jobs with as many GPUs share, as in the paper.
    """
    use = use_of(jobs if history is None else history.joined(jobs), sharing.names)
    curve = curve_of(sharing, use)
    speeds = sharing.speeds.copy() if curve is None else believed(use, curve, scores)
    return PackingSetup(speeds, profiled_s(jobs, history, profile_s), LEAST, True, told_s, modes, uneven)


def profiled_s(jobs: Workload, history: Workload | None = None, profile_s: float = PROFILE_S) -> FloatArray:
    """How long each job runs until its profile is known: 0 where one of the same user and name was profiled before.

    A job is taken to have started when it was submitted, and to be profiled *profile_s* later or at its end: when the
    replay itself starts a job depends on the policy.
    """
    both = jobs if history is None else history.joined(jobs)
    pairs = both.user.codes * (both.name.codes.max(initial=0) + 1) + both.name.codes
    at_s = both.submit_s + np.minimum(both.runtime_s, profile_s)
    _, kind = np.unique(pairs, return_inverse=True)
    first_s = np.full(int(kind.max(initial=-1)) + 1, np.inf)
    np.minimum.at(first_s, kind, at_s)
    profiled_before = first_s[kind] < both.submit_s
    return np.where(profiled_before, 0.0, profile_s)[len(both) - len(jobs) :]
