"""Indolent packing: pair pending jobs with running ones on their GPUs (Lucid section 3.3). Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from ..cluster.columns import BoolArray, FloatArray, IntArray, Labels
from .contract import sharing
from .sharing_candidates import APATHETIC, OFF, PackingLimits, Pair, Sharers

_AT_ONCE = 256  # first batch of waiting jobs, doubled each time: the work ends when no host is left
_MANY_PAIRS = 50_000  # from here on it pays to filter out jobs that cannot gain first
_PAIRS_AT_ONCE = 2_000_000  # bounds the memory of a batch

IDLE_BELOW = 0.75
"""The share of GPUs in use below which a cluster counts as idle."""


@sharing("none", powers=())
def nobody(
    waiting: Sharers, wait_s: FloatArray, running: Sharers, free: BoolArray, packing: PackingLimits
) -> tuple[Pair, ...]:
    """No jobs share."""
    return ()


@sharing("indolent")
def pairs(
    waiting: Sharers, wait_s: FloatArray, running: Sharers, free: BoolArray, packing: PackingLimits
) -> tuple[Pair, ...]:
    """Each job, in order, joins the running one beside which most time is gained (Lucid section 3.3).

    *waiting* is in order, the job that runs soonest first. *wait_s* is the wait of each waiting job for its own GPUs;
    *free* selects running jobs that are alone on their GPUs, with CPUs and memory for a second job on their node. Each
    job is in at most one pair; a job without a gain is in none.
    """
    if packing.capacity == OFF:
        return ()
    guest_group, host_group, groups = _groups(waiting, running, packing.other_users)
    guest_speed, host_speed = _speed(waiting, packing), _speed(running, packing)
    # the lightest host among equals, then the oldest, so that the answer never depends on the order of rows
    hosts = np.lexsort((running.job_id, running.score, host_group))
    hosts = hosts[(_packable(running) & free)[hosts]]
    guests = np.flatnonzero(_packable(waiting))
    made: list[tuple[int, int, float]] = []
    at_once, left = _AT_ONCE, np.ones(len(running), dtype=np.bool_)
    while len(guests) and len(hosts):
        many = np.bincount(host_group[hosts], minlength=groups + 1)  # the last one, of guests without a group, is 0
        some, guests = guests[:at_once], guests[at_once:]
        at_once *= 2
        beside = np.cumsum(many[guest_group[some]])
        if beside[-1] > _MANY_PAIRS:
            least = _Least.of(running, hosts, many, host_speed)
            some = some[least.lets(waiting, some, wait_s, guest_group, guest_speed, packing)]
            beside = np.cumsum(many[guest_group[some]])
        count = max(1, int(np.searchsorted(beside, _PAIRS_AT_ONCE, side="right")))
        some, guests = some[:count], np.concatenate([some[count:], guests])
        rows, places = _each_beside(guest_group[some], many)
        rows, columns = _fitting(waiting, some.take(rows), running, hosts.take(places), packing)
        speeds = guest_speed.take(rows), host_speed.take(columns)
        gain_s = _gain_s(waiting.left_s.take(rows), wait_s.take(rows), running.left_s.take(columns), *speeds)
        gaining = gain_s > 0.0
        chosen = _in_turn(rows[gaining], columns[gaining], gain_s[gaining])
        made += chosen
        left[[host for _, host, _ in chosen]] = False
        hosts = hosts[left[hosts]]
    guest_id = waiting.job_id[[row for row, _, _ in made]].tolist()
    host_id = running.job_id[[column for _, column, _ in made]].tolist()
    return tuple(map(Pair, guest_id, host_id, [gain_s for _, _, gain_s in made]))


class _Least(NamedTuple):
    """The minimum of each column over the hosts of each group; infinite for an empty group."""

    score: FloatArray
    memory_mib: FloatArray
    left_s: FloatArray  #: until a host beside a guest is done
    slowdown: FloatArray

    @classmethod
    def of(cls, running: Sharers, hosts: IntArray, many: IntArray, speed: FloatArray) -> _Least:
        """Return the minima over *hosts*, rows of *running* sorted by group with *many* rows per group."""
        there = np.flatnonzero(many)
        begin = (np.cumsum(many) - many)[there]
        least = np.full((4, len(many)), np.inf)
        alone_s, slow = running.left_s[hosts] / speed[hosts], 1.0 - speed[hosts]
        for of_groups, each in zip(
            least, (running.score[hosts], running.memory_mib[hosts], alone_s, slow), strict=True
        ):
            of_groups[there] = np.fmin.reduceat(each, begin)
        return cls(*least)

    def lets(
        self,
        waiting: Sharers,
        rows: IntArray,
        wait_s: FloatArray,
        group: IntArray,
        speed: FloatArray,
        packing: PackingLimits,
    ) -> BoolArray:
        """Select *rows* of *waiting* that would fit and gain beside an ideal host, with the minimum of every column.

        No other row can gain beside any host.
        """
        of_row, slow = group[rows], 1.0 - speed[rows]
        fits = waiting.score[rows] + self.score[of_row] <= packing.capacity
        fits &= waiting.memory_mib[rows] + self.memory_mib[of_row] <= packing.memory_mib
        with np.errstate(invalid="ignore"):
            together_s = np.minimum(waiting.left_s[rows] / speed[rows], self.left_s[of_row])
            gains: BoolArray = fits & (wait_s[rows] - together_s * (slow + self.slowdown[of_row]) > 0.0)
        return gains


def _in_turn(rows: IntArray, columns: IntArray, gains_s: FloatArray) -> list[tuple[int, int, float]]:
    """Select pairs (row, column, gain) from those given, row by row: each row takes the best column left."""
    chosen: list[tuple[int, int, float]] = []
    taken: set[int] = set()
    served, best, best_s = -1, -1, 0.0
    for row, column, gain_s in zip(rows.tolist(), columns.tolist(), gains_s.tolist(), strict=True):
        if row != served:
            if best_s:
                chosen.append((served, best, best_s))
                taken.add(best)
            served, best_s = row, 0.0
        if gain_s > best_s and column not in taken:
            best, best_s = column, gain_s
    return [*chosen, (served, best, best_s)] if best_s else chosen


def allowed(waiting: Sharers, running: Sharers, packing: PackingLimits) -> BoolArray:
    """Return a matrix of allowed pairs of *waiting* (rows) and *running* (columns), by every rule but the gain."""
    fits = np.zeros((len(waiting), len(running)), dtype=np.bool_)
    if packing.capacity != OFF:
        guest_group, host_group, _ = _groups(waiting, running, packing.other_users)
        rows, columns = np.nonzero(guest_group[:, None] == host_group)
        fits[_fitting(waiting, rows, running, columns, packing)] = True
    return fits & _packable(waiting)[:, None] & _packable(running)


def _fitting(
    waiting: Sharers, rows: IntArray, running: Sharers, columns: IntArray, packing: PackingLimits
) -> tuple[IntArray, IntArray]:
    """Keep the pairs of rows of *waiting* and *running* that obey the rules about two jobs."""
    fits = waiting.score.take(rows) + running.score.take(columns) <= packing.capacity
    fits &= waiting.memory_mib.take(rows) + running.memory_mib.take(columns) <= packing.memory_mib  # false for NaN
    fits &= waiting.job_id.take(rows) != running.job_id.take(columns)
    rows, columns = rows[fits], columns[fits]
    if packing.failed:
        failed = _failures(waiting.kind, running.kind, packing.failed)
        good = ~failed[waiting.kind.codes[rows], running.kind.codes[columns]]
        rows, columns = rows[good], columns[good]
    return rows, columns


def _groups(waiting: Sharers, running: Sharers, other_users: bool) -> tuple[IntArray, IntArray, int]:
    """Number the groups of jobs of both with equal GPUs (and equal users unless *other_users*).

    Return a number per waiting job (-1 if no running job has as many GPUs), one per running job, and their upper bound.
    """
    sizes = np.unique(running.gpus)
    place = np.searchsorted(sizes, waiting.gpus)
    guests = np.where(np.append(sizes, -1)[place] == waiting.gpus, place, -1)
    hosts = np.searchsorted(sizes, running.gpus)
    if other_users:
        return guests, hosts, len(sizes)
    guest, host = _numbered_alike(waiting.user, running.user)
    users = len(guest.names)
    return np.where(guests < 0, -1, guests * users + guest.codes), hosts * users + host.codes, len(sizes) * users


def _numbered_alike(one: Labels, other: Labels) -> tuple[Labels, Labels]:
    """Return both columns over one tuple of texts, so that equal codes mean equal texts."""
    if one.names is other.names and len(set(one.names)) == len(one.names):
        return one, other
    names = tuple(dict.fromkeys((*one.names, *other.names)))
    number = {name: at for at, name in enumerate(names)}
    first, second = (texts.map([number[name] for name in texts.names], np.int64) for texts in (one, other))
    return Labels(first, names), Labels(second, names)


def _each_beside(groups: IntArray, many: IntArray) -> tuple[IntArray, IntArray]:
    """Pair each index of *groups* with each place of its group; places are sorted by group, *many* per group."""
    count = many[groups]
    rows = np.repeat(np.arange(len(groups)), count)
    begin = (np.cumsum(many) - many)[groups] - (np.cumsum(count) - count)
    return rows, np.arange(len(rows)) + begin[rows]


def packable(jobs: Sharers, packing: PackingLimits) -> BoolArray:
    """Select *jobs* that could share with the lightest possible job of an equal request."""
    if packing.capacity == OFF:
        return np.zeros(len(jobs), dtype=np.bool_)
    light = (jobs.score <= packing.capacity) & (jobs.memory_mib < packing.memory_mib)
    alone = np.array([frozenset({kind}) in packing.failed for kind in jobs.kind.names], dtype=np.bool_)
    failing = alone[jobs.kind.codes] if len(jobs) else np.zeros(0, dtype=np.bool_)
    found: BoolArray = _packable(jobs) & light & ~failing
    return found


def gains_s(waiting: Sharers, wait_s: FloatArray, running: Sharers, packing: PackingLimits) -> FloatArray:
    """Return the seconds by which each pair shortens the sum of both completion times; negative if sharing harms.

    Apart, the guest waits and then runs alone. Together, both run at reduced speed until the shorter one ends, and the
    other goes on alone. So a short job does not slow a long one without a gain, nor join a long one shortly before its
    own GPUs become free. The gain is -infinity if a forecast is missing.
    """
    speeds = _speed(waiting, packing)[:, None], _speed(running, packing)[None, :]
    return _gain_s(waiting.left_s[:, None], wait_s[:, None], running.left_s[None, :], *speeds)


def _gain_s(
    guest_s: FloatArray, wait_s: FloatArray, host_s: FloatArray, guest_speed: FloatArray, host_speed: FloatArray
) -> FloatArray:
    with np.errstate(invalid="ignore"):
        together_s = np.minimum(guest_s / guest_speed, host_s / host_speed)
        guest_late_s, host_late_s = together_s * (1.0 - guest_speed), together_s * (1.0 - host_speed)
        gain_s = wait_s - guest_late_s - host_late_s
    return np.where(np.isfinite(gain_s), gain_s, -np.inf)


def capacity(packing: int, busy_share: float, arriving: float, usual: float) -> int:
    """Return the present mode (the paper's dynamic strategy): no sharing if it is not needed.

    *busy_share* is the share of the GPUs in use, 0..1; *arriving* the jobs forecast for the next hour, *usual* those of
    a usual hour. On an idle cluster no jobs share, or only the lightest if more jobs than usual arrive; otherwise the
    admin's mode *packing* holds.
    """
    if busy_share >= IDLE_BELOW:
        return packing
    return min(packing, APATHETIC) if arriving > usual else OFF


def why_not(waiting: Sharers, row: int, running: Sharers, column: int, packing: PackingLimits) -> str:
    """Return the first rule against a pair as a sentence; empty if there is none."""
    memory_mib = float(waiting.memory_mib[row] + running.memory_mib[column])
    score = int(waiting.score[row] + running.score[column])
    both = ((waiting, row), (running, column))
    rules = (
        (packing.capacity != OFF, "no jobs share now"),
        (waiting.job_id[row] != running.job_id[column], "it is the same job"),
        (not any(jobs.barred[at] for jobs, at in both), "one of the two does not share"),
        (all(jobs.gpus[at] > 0 and jobs.nodes[at] == 1 for jobs, at in both), "only jobs with GPUs of one node share"),
        (all(jobs.measured[at] for jobs, at in both), "one of the two was never measured"),
        (not any(jobs.unstable[at] for jobs, at in both), "the use of one of the two is unstable"),
        (np.isfinite(memory_mib), "the GPU memory of one of the two was never measured"),
        (waiting.gpus[row] == running.gpus[column], "they have different numbers of GPUs"),
        (score <= packing.capacity, f"their share scores add up to {score}, more than {packing.capacity}"),
        (
            memory_mib <= packing.memory_mib,
            f"they need {memory_mib:.0f} MiB of each GPU, more than {packing.memory_mib:.0f}",
        ),
        (packing.other_users or waiting.user[row] == running.user[column], "they belong to different users"),
        (not _has_failed(waiting.kind[row], running.kind[column], packing.failed), "jobs like these failed together"),
    )
    return next((words for holds, words in rules if not holds), "")


def _packable(jobs: Sharers) -> BoolArray:
    is_profiled = jobs.measured & ~jobs.unstable & np.isfinite(jobs.memory_mib)
    packable: BoolArray = is_profiled & ~jobs.barred & (jobs.gpus > 0) & (jobs.nodes == 1)
    return packable


def _speed(jobs: Sharers, packing: PackingLimits) -> FloatArray:
    return np.clip(np.where(np.isnan(jobs.speed), packing.slowest, jobs.speed), 0.01, 1.0)


def _failures(one: Labels, other: Labels, failed: Collection[frozenset[str]]) -> BoolArray:
    """Return a matrix of failed pairs of kinds, for the texts of *one* (rows) and *other* (columns)."""
    rows: dict[str, list[int]] = {}
    columns: dict[str, list[int]] = {}
    for places, names in ((rows, one.names), (columns, other.names)):
        for at, name in enumerate(names):
            places.setdefault(name, []).append(at)
    found = np.zeros((len(one.names), len(other.names)), dtype=np.bool_)
    for kinds in failed:
        first, last = min(kinds), max(kinds)
        if first == last:
            found[rows.get(first, [])] = True
            found[:, columns.get(first, [])] = True
        for here, there in ((first, last), (last, first)):
            found[np.ix_(rows.get(here, []), columns.get(there, []))] = True
    return found


def _has_failed(one: str, other: str, failed: Collection[frozenset[str]]) -> bool:
    return any(kinds in failed for kinds in (frozenset({one}), frozenset({other}), frozenset({one, other})))
