"""A check that a simulated schedule is possible, run by run."""

from __future__ import annotations

import numpy as np

from ...cluster.columns import IntArray
from ...cluster.text.plural import count
from ..engine.segments import Segments
from ..replay import Replay, restart_costs

CLOSE = 1e-6
"""Accepted difference of work done and work requested, relative to it: times are rounded."""


def impossible(replay: Replay) -> list[str]:
    """List what no cluster could have done: GPUs given twice, jobs on too few, work lost or done for nothing.

    ValueError where the replay was made without segments.
    """
    if replay.segments is None:
        raise ValueError("this replay has no segments: simulate(..., segments=True) keeps them")
    runs = replay.segments
    never = len(replay.workload) - len(np.unique(runs.row))
    if never:
        return [f"{count(never, 'job')} never ran"]
    return [*_gpus(replay, runs), *_times(replay, runs), *_work(replay, runs), *_columns(replay, runs)]


def _gpus(replay: Replay, runs: Segments) -> list[str]:
    """Check that no node gave more than it has, and each run had exactly its GPUs."""
    found = []
    pooled = replay.setup.placement == "pool"
    has = np.array([replay.fleet.total]) if pooled else replay.fleet.nodes.gpus
    run = _run_of_pair(runs)
    had = np.bincount(run, weights=runs.gpus, minlength=len(runs.row))
    wrong = int((had != replay.workload.gpus[runs.row]).sum())
    if wrong:
        found.append(f"{count(wrong, 'run')} on more or fewer GPUs than requested")
    if len(np.unique(run * len(has) + runs.node)) < len(run) or (runs.gpus < 1).any():
        found.append("a run has a node twice, or none of its GPUs")
    node, change = np.concatenate([runs.node, runs.node]), np.concatenate([runs.gpus, -runs.gpus])
    at_s = np.concatenate([runs.start_s[run], runs.end_s[run]])
    order = np.lexsort((change, at_s, node))  # at one instant ends come first
    used = np.cumsum(change[order])
    over = np.unique(node[order][used > has[node[order]]])
    return found + [f"node {replay.fleet.nodes.name[at]} gave more GPUs than it has" for at in over.tolist()]


def _times(replay: Replay, runs: Segments) -> list[str]:
    """Check that runs follow the submission and do not overlap."""
    found = []
    early = runs.start_s < replay.workload.submit_s[runs.row]
    if early.any():
        found.append(f"{count(int(early.sum()), 'run')} began before submission")
    order = np.lexsort((runs.end_s, runs.start_s, runs.row))
    row, start_s, end_s = runs.row[order], runs.start_s[order], runs.end_s[order]
    overlap = (row[1:] == row[:-1]) & (start_s[1:] < end_s[:-1])
    if overlap.any() or (end_s < start_s).any():
        found.append(f"{count(int(overlap.sum()), 'run')} began before the one before them was over")
    return found


def _work(replay: Replay, runs: Segments) -> list[str]:
    """Check that each job ran as long as its runtime and its restarts take, all runs together."""
    jobs = replay.workload
    ran_s = np.bincount(runs.row, weights=runs.end_s - runs.start_s, minlength=len(jobs))
    runs_of = np.bincount(runs.row, minlength=len(jobs))
    needed_s = jobs.runtime_s + (runs_of - 1) * restart_costs(jobs, replay.setup)
    rounding_s = runs_of * np.spacing(np.abs(replay.end_s))
    wrong = int((np.abs(ran_s - needed_s) > CLOSE * needed_s + rounding_s).sum())
    return [f"{count(wrong, 'job')} did more or less than needed"] if wrong else []


def _columns(replay: Replay, runs: Segments) -> list[str]:
    """Check that the columns of the replay agree with its runs."""
    count = len(replay.workload)
    first_s, last_s, spread = np.full(count, np.inf), np.full(count, -np.inf), np.zeros(count, dtype=np.int64)
    np.minimum.at(first_s, runs.row, runs.start_s)
    np.maximum.at(last_s, runs.row, runs.end_s)
    nodes = np.bincount(_run_of_pair(runs), minlength=len(runs.row))
    np.maximum.at(spread, runs.row, nodes)
    stops = np.bincount(runs.row, minlength=count) - 1
    pairs = {
        "first starts": (first_s, replay.start_s),
        "ends": (last_s, replay.end_s),
        "spreads": (spread, replay.spread),
        "preemptions": (stops, replay.stops),
    }
    return [f"{name} are not those of the runs" for name, (ours, theirs) in pairs.items() if (ours != theirs).any()]


def _run_of_pair(runs: Segments) -> IntArray:
    """Return the segment that each pair belongs to."""
    many = np.diff(np.append(runs.first, len(runs.node)))
    return np.repeat(np.arange(len(runs.row)), many)
