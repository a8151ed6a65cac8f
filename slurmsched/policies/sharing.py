"""Indolent packing: pair pending jobs with running ones on their GPUs (Lucid section 3.3). Pure."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from ..cluster.columns import BoolArray, FloatArray, IntArray, Labels
from ..cluster.ties import to_ms
from .contract import sharing
from .sharing_candidates import APATHETIC, OFF, PackingLimits, Pair, Sharers

_PAIRS_AT_ONCE = 200_000  # bounds the memory of a batch

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
    *free* selects running jobs that have GPUs without a second job, with CPUs and memory for one on their node. Each
    waiting job is in at most one pair; a job without a gain is in none. Among equal hosts the oldest is joined, so that
    the answer does not depend on the order of rows.
    """
    if packing.capacity == OFF:
        return ()
    guests, hosts = np.flatnonzero(_packable(waiting)), np.flatnonzero(_packable(running) & free)
    if not len(hosts):
        return ()
    there = running.take(hosts[np.argsort(running.job_id[hosts], kind="stable")])
    made: list[Pair] = []
    for some in np.array_split(guests, -(-len(guests) * len(there) // _PAIRS_AT_ONCE) or 1):
        there, joined = _joined(waiting.take(some), wait_s[some], there, packing)
        made += joined
    return tuple(made)


def _joined(waiting: Sharers, wait_s: FloatArray, hosts: Sharers, packing: PackingLimits) -> tuple[Sharers, list[Pair]]:
    """Let each waiting job in turn join the best of *hosts*; return the hosts with their guests, and the pairs."""
    made: list[Pair] = []
    gains_s = gain_table(waiting, wait_s, hosts, packing)
    for row in range(len(waiting)):
        at = int(gains_s[row].argmax())
        gain_s = float(gains_s[row, at])
        if gain_s <= 0.0:
            continue
        made.append(Pair(int(waiting.job_id[row]), int(hosts.job_id[at]), gain_s))
        hosts = hosts.with_guest(at, waiting, row, packing)
        if hosts.open_gpus[at] and packing.wide:
            later, one = slice(row + 1, None), np.array([at])
            gains_s[later, at] = gain_table(waiting.take(later), wait_s[later], hosts.take(one), packing)[:, 0]
        else:
            gains_s[:, at] = -np.inf
    return hosts, made


def gain_table(waiting: Sharers, wait_s: FloatArray, running: Sharers, packing: PackingLimits) -> FloatArray:
    """Return what each pair of *waiting* (rows) and *running* (columns) gains; -infinity where it is not allowed."""
    fits = _matching(waiting, running, packing)
    rows, columns = np.nonzero(fits)
    speeds = expected_speeds(waiting, rows, running, columns, packing)
    gains = np.full(fits.shape, -np.inf)
    gain_s = gains_of_pairs(waiting, wait_s, rows, running, columns, speeds, packing)
    gains[rows, columns] = np.where(packing.keeps_enough(*speeds), gain_s, -np.inf)
    return gains


def allowed(waiting: Sharers, running: Sharers, packing: PackingLimits) -> BoolArray:
    """Return a matrix of allowed pairs of *waiting* (rows) and *running* (columns), by every rule but the gain."""
    fits = _matching(waiting, running, packing)
    rows, columns = np.nonzero(fits)
    fits[rows, columns] = packing.keeps_enough(*expected_speeds(waiting, rows, running, columns, packing))
    return fits


def gains_s(waiting: Sharers, wait_s: FloatArray, running: Sharers, packing: PackingLimits) -> FloatArray:
    """Return ``pair_gain_s`` of each pair of *waiting* (rows) and *running* (columns).

    It is -infinity if a forecast is missing.
    """
    shape = len(waiting), len(running)
    rows, columns = (place.ravel() for place in np.indices(shape))
    speeds = expected_speeds(waiting, rows, running, columns, packing)
    return gains_of_pairs(waiting, wait_s, rows, running, columns, speeds, packing).reshape(shape)


def _matching(waiting: Sharers, running: Sharers, packing: PackingLimits) -> BoolArray:
    """Return a matrix of pairs that every rule allows but those about their speed."""
    if packing.capacity == OFF:
        return np.zeros((len(waiting), len(running)), dtype=np.bool_)
    fits = _packable(waiting)[:, None] & _packable(running)
    fits &= waiting.gpus[:, None] <= running.open_gpus
    if not packing.wide:
        fits &= waiting.gpus[:, None] == running.gpus
    fits &= waiting.score[:, None] + running.score <= packing.capacity
    fits &= waiting.memory_mib[:, None] + running.memory_mib <= packing.memory_mib  # false for NaN
    fits &= waiting.job_id[:, None] != running.job_id
    if not packing.other_users:
        guest, host = _numbered_alike(waiting.user, running.user)
        fits &= guest.codes[:, None] == host.codes
    if packing.failed:
        failed = _failures(waiting.kind, running.kind, packing.failed)
        fits &= ~failed[waiting.kind.codes[:, None], running.kind.codes]
    return np.asarray(fits)


def expected_speeds(
    waiting: Sharers, rows: IntArray, running: Sharers, columns: IntArray, packing: PackingLimits
) -> tuple[FloatArray, FloatArray]:
    """Return the speeds that a row of *waiting* and one of *running* are expected to keep beside each other."""
    speed = packing.pair_speed(waiting.gpu_util[rows] + running.gpu_util[columns])
    return speed * waiting.kept[rows], speed * running.kept[columns]


def gains_of_pairs(
    waiting: Sharers,
    wait_s: FloatArray,
    rows: IntArray,
    running: Sharers,
    columns: IntArray,
    speeds: tuple[FloatArray, FloatArray],
    packing: PackingLimits,
) -> FloatArray:
    """Return ``pair_gain_s`` of each pair of a row of *waiting* and one of *running* at their *speeds*; else -infinity.

    That is where a forecast is missing.
    """
    guest_speed, host_speed = speeds
    with np.errstate(invalid="ignore", divide="ignore"):
        gain_s = pair_gain_s(
            wait_s[rows],
            waiting.left_s[rows],
            running.left_s[columns],
            guest_speed,
            host_speed,
            np.maximum(0.0, running.speed[columns] - host_speed),
            np.asarray(waiting.gpus[rows] * packing.demand, np.float64),
            np.asarray(running.gpus[columns] * packing.demand, np.float64),
        )
    return np.where(np.isfinite(gain_s), to_ms(gain_s), -np.inf)


def pair_gain_s(
    wait_s: FloatArray,
    guest_s: FloatArray,
    host_s: FloatArray,
    guest_speed: FloatArray,
    host_speed: FloatArray,
    slowed: FloatArray,
    guest_demand: FloatArray,
    host_demand: FloatArray,
) -> FloatArray:
    """Return the seconds by which a pair shortens the sum of completion times; negative if sharing harms.

    Apart, the guest waits and then runs alone. Together, both run at reduced speed until the shorter one ends, and the
    other goes on alone; the host loses the part *slowed* of its speed. So a short job does not slow a long one without
    a gain, nor join a long one shortly before its own GPUs become free. The GPUs that the guest does not need, less
    those that the host needs for longer, come free for the jobs that wait: the demands are the GPUs of the two times
    the jobs that wait per GPU of the cluster.
    """
    together_s = np.minimum(guest_s / guest_speed, host_s / host_speed)
    freed = guest_speed * guest_demand - slowed * host_demand
    return wait_s - together_s * (1.0 - guest_speed + slowed - freed)


def packable(jobs: Sharers, packing: PackingLimits) -> BoolArray:
    """Select *jobs* that could share with the lightest possible job of an equal request."""
    if packing.capacity == OFF:
        return np.zeros(len(jobs), dtype=np.bool_)
    light = (jobs.score <= packing.capacity) & (jobs.memory_mib < packing.memory_mib)
    alone = np.array([frozenset({kind}) in packing.failed for kind in jobs.kind.names], dtype=np.bool_)
    failing = alone[jobs.kind.codes] if len(jobs) else np.zeros(0, dtype=np.bool_)
    found: BoolArray = _packable(jobs) & light & ~failing
    return found


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
    at = np.array([row]), np.array([column])
    first, second = expected_speeds(waiting, at[0], running, at[1], packing)
    both = ((waiting, row), (running, column))
    rules = (
        (packing.capacity != OFF, "no jobs share now"),
        (waiting.job_id[row] != running.job_id[column], "it is the same job"),
        (not any(jobs.barred[at] for jobs, at in both), "one of the two does not share"),
        (all(jobs.gpus[at] > 0 and jobs.nodes[at] == 1 for jobs, at in both), "only jobs with GPUs of one node share"),
        (all(jobs.measured[at] for jobs, at in both), "one of the two was never measured"),
        (not any(jobs.unstable[at] for jobs, at in both), "the use of one of the two is unstable"),
        (np.isfinite(memory_mib), "the GPU memory of one of the two was never measured"),
        (packing.wide or waiting.gpus[row] == running.gpus[column], "they have different numbers of GPUs"),
        (waiting.gpus[row] <= running.open_gpus[column], "too few of its GPUs are without a second job"),
        (score <= packing.capacity, f"their share scores add up to {score}, more than {packing.capacity}"),
        (
            memory_mib <= packing.memory_mib,
            f"they need {memory_mib:.0f} MiB of each GPU, more than {packing.memory_mib:.0f}",
        ),
        (bool(packing.keeps_enough(first, second)[0]), _too_slow(float(first[0]), float(second[0]), packing)),
        (packing.other_users or waiting.user[row] == running.user[column], "they belong to different users"),
        (not _has_failed(waiting.kind[row], running.kind[column], packing.failed), "jobs like these failed together"),
    )
    return next((words for holds, words in rules if not holds), "")


def _too_slow(first: float, second: float, packing: PackingLimits) -> str:
    """Return why a pair with these expected speeds is not made."""
    least, mean = packing.least_speed + packing.margin, (first + second) / 2.0
    if mean < least:
        error = f" and {packing.margin:g} for the error of that forecast" if packing.margin else ""
        return f"they would keep {mean:.2f} of their speed, less than {packing.least_speed:g}{error}"
    return f"one of the two would keep {min(first, second):.2f} of its speed, less than {packing.least_speed_each:g}"


def _packable(jobs: Sharers) -> BoolArray:
    is_profiled = jobs.measured & ~jobs.unstable & np.isfinite(jobs.memory_mib)
    packable: BoolArray = is_profiled & ~jobs.barred & (jobs.gpus > 0) & (jobs.nodes == 1)
    return packable


def _numbered_alike(one: Labels, other: Labels) -> tuple[Labels, Labels]:
    """Return both columns over one tuple of texts, so that equal codes mean equal texts."""
    if one.names is other.names and len(set(one.names)) == len(one.names):
        return one, other
    names = tuple(dict.fromkeys((*one.names, *other.names)))
    number = {name: at for at, name in enumerate(names)}
    first, second = (texts.map([number[name] for name in texts.names], np.int64) for texts in (one, other))
    return Labels(first, names), Labels(second, names)


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
