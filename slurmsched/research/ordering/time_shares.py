"""Gavel (Narayanan et al., OSDI'20) as an order: the jobs that are farthest behind their shares of time come first.

The linear program is that of the scaling ``gavel-las``, over all jobs that wait or run. Jobs that differ in nothing
that it reads are of one group, with one variable for each type: in some optimum their shares are equal, by symmetry.
What a job has received is what a view has: the time that it ran, at the speed of the type where it runs or was sent
last. So the order follows from one view, and nothing is kept from decision to decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray, Labels
from ...cluster.run_types import run_types
from ...cluster.speed_texts import speeds_on
from ...cluster.state import View
from ...cluster.ties import in_points
from ...policies.contract import ordering
from ..scaling.gavel_programs import ShareProgram, alone, equal_split, fairness_need

MOST_GROUPS = 1024
"""Groups above which similar speeds count as equal, so that the program stays small."""

ROUNDINGS = (0.0, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0)
"""The steps to which the binary logarithms of speeds are rounded, the first that leaves few enough groups."""

HALF_ROUND_S = 180.0
"""What a job counts as having received beside the time that it ran: half a round of the scaling."""

DIGITS = 3
"""Of the time that is compared; less is rounding of the solver, and ties keep Slurm's own order."""


@dataclass(frozen=True, eq=False)
class TimeShares:
    """The max-min fair shares of time of the pending jobs of a view, then of its running ones, by type of GPU."""

    types: tuple[str, ...]
    group: IntArray  #: of each job; the jobs of a group have equal shares
    shares: FloatArray  #: per group and type
    speed: FloatArray  #: per group and type, over the mean of all GPUs; 0 where it cannot run
    level: FloatArray  #: what the shares of a group add up to, each at its speed; 1 for jobs that need none

    @classmethod
    def of(cls, view: View) -> TimeShares:
        """Return the shares for a view; no share is larger at the cost of a smaller one."""
        jobs, places = _Jobs.of(view), _Places.of(view)
        group, gpus, speed = jobs.groups(places)
        many = np.maximum(np.bincount(group, jobs.tasks, len(gpus)), 1).astype(np.int64)
        if not speed.any():
            none = np.zeros((len(gpus), len(places.types)))
            return cls(places.types, group, none, none, np.ones(len(gpus)))
        program = ShareProgram(alone(speed, gpus * many), len(gpus), places.gpus)
        program.water_filled(fairness_need(speed, np.maximum(gpus, 1), np.ones(len(gpus)), places.gpus))
        mean = np.maximum(equal_split(speed, places.gpus), 1e-300)
        level = program.throughput / mean
        by_type = np.zeros((len(gpus), len(places.types)))
        for place, number in enumerate(places.type_of.tolist()):
            by_type[:, number] = np.maximum(by_type[:, number], speed[:, place] / mean)
        shares = in_points(program.shares @ (places.type_of[:, None] == np.arange(len(places.types))))
        return cls(places.types, group, shares, by_type, np.where(level > 0, level, 1.0))

    def received_s(self, view: View) -> FloatArray:
        """Return the time that each pending job ran, in seconds at the mean speed of all GPUs.

        It counts at the speed of the type where a job runs, or was sent to last, and else at the mean.
        """
        jobs, number = view.pending, {name: place for place, name in enumerate(self.types)}
        running = np.array([number.get(name, -1) for name in run_types(jobs, view.nodes)], np.int64)
        sent = jobs.steered.map([number.get(name, -1) for name in jobs.steered.names], np.int64)
        place = np.where(running >= 0, running, sent)
        if not number:
            return jobs.ran_s
        speed = self.speed[self.group[: len(jobs)], place]
        return np.asarray(jobs.ran_s * np.where((place >= 0) & (speed > 0), speed, 1.0))

    def reached_s(self, view: View) -> FloatArray:
        """Return the time in which its share gives each pending job what it received, and half a round."""
        exact_s = (self.received_s(view) + HALF_ROUND_S) / self.level[self.group[: len(view.pending)]]
        unit = in_points(10.0 ** (np.floor(in_points(np.log10(exact_s))) - DIGITS + 1))
        return np.asarray(np.round(in_points(exact_s / unit)) * unit, np.float64)


@dataclass(frozen=True, eq=False)
class _Places:
    """The GPUs of a type on nodes of the same partitions, which count as equal: a row each, in an order of its own."""

    types: tuple[str, ...]
    type_of: IntArray
    partitions: tuple[str, ...]
    gpus: IntArray

    @classmethod
    def of(cls, view: View) -> _Places:
        """Return the types of GPUs of a view's usable nodes by the partitions that these are in, in a fixed order."""
        nodes = view.nodes
        have = nodes.usable & (nodes.gpus > 0)
        names = list(zip(nodes.gpu_type.take(have), nodes.partitions.take(have), strict=True))
        distinct = sorted(set(names))
        types = tuple(dict.fromkeys(name for name, _ in distinct))
        rows = np.array([distinct.index(name) for name in names], np.int64)
        gpus = np.bincount(rows, nodes.gpus[have], len(distinct)).astype(np.int64)
        return cls(
            types,
            np.array([types.index(name) for name, _ in distinct], np.int64),
            tuple(text for _, text in distinct),
            gpus,
        )

    def inside(self, names: Sequence[str]) -> BoolArray:
        """Return for each of *names*, comma lists of partitions, which places are in one of them."""
        bind, wanted = any(self.partitions), [set(text.split(",")) for text in names]
        found = [[not bind or not some.isdisjoint(text.split(",")) for text in self.partitions] for some in wanted]
        return np.array(found, np.bool_).reshape(len(names), len(self.gpus))

    def of_types(self, names: Sequence[str]) -> BoolArray:
        """Return for each of *names*, types joined as a100+v100 or empty for any, which places are of them."""
        accepted = [[not text or name in text.split("+") for name in self.types] for text in names]
        return np.array(accepted, np.bool_).reshape(len(names), len(self.types))[:, self.type_of]


@dataclass(frozen=True, eq=False)
class _Jobs:
    """What the program reads of the pending jobs, then of the running ones."""

    gpus: IntArray
    tasks: IntArray
    partition: Labels
    gpu_type: Labels
    accepted: Labels
    speeds: Labels

    @classmethod
    def of(cls, view: View) -> _Jobs:
        first, then = view.pending, view.running
        return cls(
            np.concatenate([first.gpus, then.gpus]),
            np.concatenate([first.tasks, np.ones(len(then), np.int64)]),
            first.partition.joined(then.partition),
            first.gpu_type.joined(then.gpu_type),
            first.types.joined(then.types),
            first.type_speeds.joined(then.type_speeds),
        )

    def groups(self, places: _Places) -> tuple[IntArray, IntArray, FloatArray]:
        """Return the group of each job, and the GPUs of a job of each group and its speed in each place."""
        texts = (self.partition, self.gpu_type, self.accepted, self.speeds)
        columns = np.stack([self.gpus, *(text.codes for text in texts)])
        (gpus, partition, wanted, accepted, speeds), kind = np.unique(columns, axis=1, return_inverse=True)
        may = places.inside(self.partition.names)[partition]
        may &= places.of_types(self.gpu_type.names)[wanted] & places.of_types(self.accepted.names)[accepted]
        of_type = (may * places.gpus) @ (places.type_of[:, None] == places.type_of)  # of the type of each place
        may &= (gpus > 0)[:, None] & (of_type >= gpus[:, None])
        speed = np.where(may, speeds_on(self.speeds.names, places.types)[speeds][:, places.type_of], 0.0)
        for step in ROUNDINGS:
            some, group = np.unique(np.column_stack([gpus, _rounded(speed, step)]), axis=0, return_inverse=True)
            if len(some) <= MOST_GROUPS:
                break
        return group.reshape(-1)[kind.reshape(-1)], some[:, 0].astype(np.int64), some[:, 1:]


def _rounded(speed: FloatArray, step: float) -> FloatArray:
    """Return *speed* with its binary logarithm rounded to *step*; as it is for 0, and where it is 0."""
    if not step:
        return speed
    steps = np.round(in_points(np.log2(np.where(speed > 0, speed, 1.0)) / step))
    return np.where(speed > 0, in_points(2.0 ** (steps * step)), 0.0)


@dataclass(frozen=True)
class Gavel:
    """Farthest behind its max-min fair share of time on the types of GPUs first (Gavel, OSDI'20)."""

    def __call__(self, view: View) -> FloatArray:
        """Return the key per pending job: how far along its share it is, in seconds."""
        return TimeShares.of(view).reached_s(view)

    def remarks(self, view: View, row: int) -> tuple[str, ...]:
        """Return a sentence about the share of a pending job, what it has received, and how far along that is."""
        shares = TimeShares.of(view)
        mine = shares.shares[shares.group[row]]
        parts = [f"{part:.0%} on {name or 'GPUs'}" for name, part in zip(shares.types, mine, strict=True) if part > 0]
        received_s, reached_s = float(shares.received_s(view)[row]), float(shares.reached_s(view)[row])
        return (
            f"By gavel its share of time is {' and '.join(parts) or 'not known'}. It has received"
            f" {received_s / 60:.0f} min on a GPU of mean speed. With half a round more, that is what its share gives"
            f" in {reached_s / 60:.0f} min; the job with the least of these is farthest behind, and runs soonest.",
        )


gavel = ordering("gavel", changes="with_time", turns=True, needs="highspy", extra="deadlines")(Gavel())
