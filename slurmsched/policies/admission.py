"""Admission: the pending jobs that are considered; the others wait outside, in the order of their submission."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..cluster.columns import BoolArray, FloatArray
from ..cluster.jobs import JobTable
from ..cluster.state import View
from ..errors import ConfigError
from .contract import ADMISSIONS, Admission

ROUNDING = 1 + 1e-12  #: a bound that is a whole number of GPUs except for rounding is that number


def in_line_since_s(jobs: JobTable) -> FloatArray:
    """Return since when each job stands in line: since it came, or from its own begin time if that is later.

    A job that ran before keeps its place.
    """
    came_s = jobs.came_s
    own_s = np.where(jobs.held_by_us, came_s, jobs.eligible_s)
    since_s = np.where(np.isnan(jobs.waiting_since_s), own_s, jobs.waiting_since_s)
    return np.where(jobs.restarts > 0, came_s, np.fmax(came_s, since_s))


def accept_all(view: View) -> BoolArray:
    """Consider every job."""
    return np.ones(len(view.pending), dtype=np.bool_)


def as_now(view: View) -> BoolArray:
    """Consider every job that no hold of ours keeps out."""
    return np.asarray(~view.pending.held_by_us)


@dataclass(frozen=True)
class LoadBound:
    """A bound on the GPUs that admitted jobs request together, over the GPUs of all nodes."""

    load: float

    def __call__(self, view: View) -> BoolArray:
        """Admit jobs by their place in line while they fit the bound; one larger than the bound comes in alone.

        An array comes in once one of its tasks fits, and all of its tasks count for the jobs behind it. Jobs that left
        have only made room since the others were admitted, so that no admitted job is ever sent out.
        """
        inside, jobs = view.running, view.pending
        order = np.lexsort((jobs.job_id, in_line_since_s(jobs)))
        requested = (jobs.gpus * jobs.tasks)[order]
        used = int((inside.gpus * inside.tasks).sum()) + np.cumsum(requested) - requested + jobs.gpus[order]
        fits = used <= self.load * int(view.nodes.gpus.sum()) * ROUNDING
        if not len(inside):
            fits[:1] = True
        admitted = np.zeros(len(jobs), dtype=np.bool_)
        admitted[order] = np.logical_and.accumulate(fits)
        return admitted


def _load(settings: Mapping[str, str]) -> LoadBound:
    """Return the bound in *settings*; ConfigError unless it is one number above 0."""
    try:
        load = float(settings.get("most", ""))
    except ValueError:
        load = math.nan
    if set(settings) != {"most"} or not 0 < load < math.inf:
        raise ConfigError("admission load: accepted is load:X with X above 0, GPUs asked for over GPUs there are")
    return LoadBound(load)


def find_admission(text: str) -> Admission:
    """Return the admission that *text* names: ``accept-all``, ``load:1.2``, or a plug-in's; ConfigError for others."""
    return ADMISSIONS.find(text.replace(":", " ", 1))


def load_of(text: str) -> float:
    """Return the bound on requested over existing GPUs: infinite for ``accept-all``, 1.2 for ``load:1.2``.

    ConfigError for an admission that has no such bound.
    """
    rule = find_admission(text).function
    if rule is accept_all:
        return math.inf
    if not (isinstance(rule, LoadBound) and rule.load < math.inf):
        raise ConfigError(f"admission {text!r} is no bound; there are: accept-all, and load:X with X above 0")
    return rule.load


ADMISSIONS.add(Admission("accept-all", accept_all, "Every job is considered."))
ADMISSIONS.add(
    Admission("unchanged", as_now, "Jobs that wait outside stay there.", powers=frozenset({"hold"})),
)
ADMISSIONS.add(
    Admission(
        "load",
        LoadBound(math.inf),
        "The GPUs asked for by admitted jobs are bounded by a multiple of those there are.",
        tuned=_load,
        defaults="most=inf",
        bare="most",
        powers=frozenset({"hold"}),
    )
)
