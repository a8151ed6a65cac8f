"""Gavel (Narayanan et al., OSDI'20): shares of time on each type of GPU, by linear programs, received in rounds.

A program gives each job, or pair of jobs on the same GPUs, its share of time on each type. In each round the types are
filled one after the other, the fastest first, with those that are farthest behind their shares first, and with any
other job while GPUs are left. Shares are computed anew once jobs have come or ended, and the old ones were in use long
enough to be received; a job that comes in between waits for its share.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...cluster.row_matching import Matching
from ...cluster.training import Allocations, TrainingView, TypeSpeeds
from ...errors import ConfigError
from ...policies.contract import SCALINGS, Scaling
from .gavel_programs import Combinations, ShareProgram, alone, equal_split, fairness_need, isolated, useful
from .placing import placed

SETTLE_S = 1_920.0
"""Seconds for which shares are in use at least, as in the simulator of the authors."""


class SharesInUse(NamedTuple):
    """The shares of time, what of them was received, and what the next ones need to know."""

    at_s: float
    job_id: IntArray
    combinations: Combinations  #: of rows of *job_id*
    shares: FloatArray  #: per combination and type
    received_s: FloatArray  #: likewise, since *at_s*
    done: FloatArray  #: iterations of each job at *at_s*
    isolated: FloatArray  #: iterations per second of each on an equal part of the GPUs
    isolated_s: FloatArray  #: seconds in which each would have done *done* on the equal parts that there were


@dataclass(frozen=True)
class Gavel:
    """The shares by one objective: max-min fairness (las), finish-time fairness (ftf) or makespan."""

    objective: str
    blind: bool = False  #: as if all types were equally fast
    pack: bool = False  #: pairs of jobs may share GPUs
    settle_s: float = SETTLE_S

    def __call__(self, view: TrainingView) -> Allocations:
        """Return the allocation of each job for a round."""
        speeds, jobs = view.type_speeds, view.jobs
        assert speeds is not None
        plan = view.plan if isinstance(view.plan, SharesInUse) else None
        if plan is None or self._outdated(plan, view):
            plan = self._shared_out(view, speeds, plan)
        both = plan.combinations
        now = Matching.of(plan.job_id, jobs.job_id).rows
        first, second = now[both.job], np.where(both.other >= 0, now[both.other], -1)
        there = (first >= 0) & ((both.other < 0) | (second >= 0))
        types = np.arange(len(speeds.types))
        if self.blind:
            types = np.roll(types, -int(view.now_s // view.round_s))
        runs = chosen(
            np.where(there[:, None], plan.shares / (plan.received_s + view.round_s / 2), -1.0),
            replace(both, job=first, other=second),
            gpus_by_type(view, speeds),
            types,
        )
        received_s = plan.received_s.copy()
        received_s[runs[:, 0], runs[:, 1]] += view.round_s
        gpus, beside = _on_nodes(view, speeds, first[runs[:, 0]], second[runs[:, 0]], runs[:, 1])
        return Allocations(gpus, beside=beside, plan=plan._replace(received_s=received_s))

    def _outdated(self, plan: SharesInUse, view: TrainingView) -> bool:
        same = len(plan.job_id) == len(view.jobs) and bool((plan.job_id == view.jobs.job_id).all())
        left = bool(np.isin(view.jobs.job_id, plan.job_id).any())
        return not same and (view.now_s - plan.at_s >= self.settle_s or not left)

    def _shared_out(self, view: TrainingView, speeds: TypeSpeeds, before: SharesInUse | None) -> SharesInUse:
        """Return the shares of the present jobs."""
        jobs, of_type = view.jobs, gpus_by_type(view, speeds)
        throughput = speeds.alone
        if self.blind:
            throughput = np.where(throughput > 0, equal_split(throughput, of_type)[:, None], 0.0)
        combinations = alone(throughput, jobs.gpus)
        if self.pack:
            combinations = useful(in_pairs(combinations, speeds.kind, speeds.beside), throughput)
        isolated_s = np.zeros(len(jobs))
        if before is not None:
            was = Matching.of(jobs.job_id, before.job_id).rows
            lone_s = before.isolated_s[was] + (jobs.done - before.done[was]) / np.maximum(before.isolated[was], 1e-300)
            isolated_s = np.where(was >= 0, lone_s, 0.0)
        rate = isolated(throughput, jobs.gpus, of_type)
        program = ShareProgram(combinations, len(jobs), of_type)
        if self.objective == "las":
            program.water_filled(fairness_need(throughput, jobs.gpus, jobs.weight, of_type))
        elif self.objective == "makespan":
            program.level(jobs.left)
        else:
            total_s = isolated_s + jobs.left / np.maximum(rate, 1e-300)
            program.finish_time_ratio(jobs.left, view.now_s - jobs.submit_s, total_s)
        if self.objective != "las":
            program.with_fewest_pairs()
        shares = program.shares
        return SharesInUse(
            view.now_s, jobs.job_id, combinations, shares, np.zeros_like(shares), jobs.done, rate, isolated_s
        )


def in_pairs(jobs: Combinations, kind: IntArray, beside: FloatArray) -> Combinations:
    """Return *jobs*, each alone, and every pair of them with equally many GPUs that can share these on some type."""
    first, second = np.triu_indices(len(jobs), 1)
    speed, other = beside[kind[first], kind[second]], beside[kind[second], kind[first]]
    can = (jobs.gpus[first] == jobs.gpus[second]) & ((speed > 0) & (other > 0)).any(axis=1)
    return Combinations(
        np.concatenate([jobs.job, first[can]]),
        np.concatenate([jobs.other, second[can]]),
        np.concatenate([jobs.gpus, jobs.gpus[first[can]]]),
        np.concatenate([jobs.speed, speed[can]]),
        np.concatenate([jobs.other_speed, other[can]]),
    )


def chosen(behind: FloatArray, combinations: Combinations, free: IntArray, types: IntArray) -> IntArray:
    """Return the combinations of a round, each with its type: rows of two numbers.

    The *types* are filled in this order. *behind* is the share of each combination and type over what it has received,
    0 for one without a share, which is taken last and only alone, and negative for one that cannot run now.
    """
    taken: set[int] = set()
    runs = []
    may = (combinations.speed > 0) & ((behind > 0) | ((behind == 0) & (combinations.other < 0)[:, None]))
    for kind in types.tolist():
        left = int(free[kind])
        for row in np.argsort(-behind[:, kind], kind="stable").tolist():
            if not left:
                break
            jobs = {int(combinations.job[row]), int(combinations.other[row])} - {-1}
            if may[row, kind] and combinations.gpus[row] <= left and taken.isdisjoint(jobs):
                left -= int(combinations.gpus[row])
                taken |= jobs
                runs.append((row, kind))
    return np.array(runs, np.int64).reshape(-1, 2)


def gpus_by_type(view: TrainingView, speeds: TypeSpeeds) -> IntArray:
    """Return the GPUs of each type."""
    return np.bincount(speeds.node_type, view.nodes.gpus, len(speeds.types)).astype(np.int64)


def _on_nodes(
    view: TrainingView, speeds: TypeSpeeds, first: IntArray, second: IntArray, kind: IntArray
) -> tuple[IntArray, IntArray | None]:
    """Return the GPUs of each job on each node, and the job on the same ones, for combinations on types."""
    jobs = view.jobs
    gpus, beside = np.zeros_like(jobs.held), np.full(len(jobs), -1)
    for number in range(len(speeds.types)):
        rows, nodes = first[kind == number], np.flatnonzero(speeds.node_type == number)
        order = np.argsort(-jobs.gpus[rows], kind="stable")
        held = jobs.held[np.ix_(rows, nodes)]
        gpus[np.ix_(rows, nodes)] = placed(jobs.gpus[rows], held, view.nodes.gpus[nodes], order)
    pair = second >= 0
    gpus[second[pair]] = gpus[first[pair]]
    beside[first[pair]], beside[second[pair]] = second[pair], first[pair]
    return gpus, beside if pair.any() else None


def _tuned(objective: str, blind: bool, settings: Mapping[str, str]) -> Gavel:
    name = f"gavel-{objective}" + "-blind" * blind
    found = dict(settings)
    try:
        pack = {"yes": True, "no": False}[found.pop("pack", "no")]
        settle_s = float(found.pop("settle_s", SETTLE_S))
    except (KeyError, ValueError):
        settle_s = -1.0
    if found or not settle_s >= 0 or (blind and "pack" in settings):
        raise ConfigError(f"{name}: accepted are settle_s=SECONDS from 0 on{'' if blind else ', and pack=yes or no'}")
    return Gavel(objective, blind, pack, settle_s)


for _objective, _summary in (
    ("las", "Max-min fair throughput over an equal split of the types of GPUs (Gavel, OSDI'20)."),
    ("ftf", "The worst finish-time ratio is lowered as far as can be, over types of GPUs (Gavel, OSDI'20)."),
    ("makespan", "All jobs end as soon as can be, over types of GPUs (Gavel, OSDI'20)."),
):
    for _blind in (False, True):
        SCALINGS.add(
            Scaling(
                f"gavel-{_objective}" + "-blind" * _blind,
                Gavel(_objective, _blind),
                _summary[:-1] + ", as if all types were equally fast." if _blind else _summary,
                tuned=partial(_tuned, _objective, _blind),
                defaults=f"settle_s={SETTLE_S:g}" + " pack=no" * (not _blind),
                needs=frozenset({"type_speeds"}),
                turns=True,
                powers=frozenset({"resize"}),
            )
        )
