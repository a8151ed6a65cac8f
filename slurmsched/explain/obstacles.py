"""What keeps a pending job from any start: a request that nothing can meet, or nodes that take no jobs.

``why`` and ``eta`` say the same sentence. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..cluster.columns import BoolArray, IntArray
from ..cluster.jobs import JobTable
from ..cluster.nodes import NodeTable
from ..cluster.reasons import ReasonKind, reason_of, where_kind
from ..cluster.state import View
from ..cluster.text.hostlist import expanded
from ..decide.job_nodes import nodes_by_kind
from ..decide.phrasing import spell
from ..decide.unshown_nodes import unshown_nodes
from ..policies.selection.could_hold import Never, never
from .components import too_few_nodes, with_components
from .limits import beyond_limit
from .reserved_nodes import too_large_for_own

NAMED_MOST = 3  #: nodes that a sentence describes one by one


def cannot_run(view: View) -> dict[int, Never]:
    """Find the pending jobs that cannot run as they are, by their requests or by Slurm's reason; each row with why.

    Slurm holds a job with BadConstraints, whichever of its partitions that was judged for: it looks at it no more. Of a
    job that waits and for which Slurm has a start it knows more than we do: nodes or limits may be new.
    """
    jobs = view.pending
    given_up = jobs.reason.map([reason_of(text).word == "BadConstraints" for text in jobs.reason.names], np.bool_) & (
        jobs.priority == 0
    )
    says = where_kind(jobs, ReasonKind.CANNOT_RUN) | given_up
    said = np.flatnonzero(says).tolist()
    by_slurm = {row: Never(f"Slurm says {_slurms(jobs.reason[row])}") for row in said}
    planned = where_kind(jobs, ReasonKind.WAITS) & (jobs.slurm_start_s > view.now_s)
    by_us = {row: why for row, why in never(jobs, view.nodes, view.partitions).items() if not planned[row]}
    return too_few_nodes(view) | by_slurm | dict(_beyond_limits(view)) | by_us


def _beyond_limits(view: View) -> Iterator[tuple[int, Never]]:
    """Yield the jobs that a limit blocks which no end of other jobs opens, with it."""
    jobs = view.pending
    limited = jobs.reason.map([reason_of(text).kind is ReasonKind.LIMIT for text in jobs.reason.names], np.bool_)
    for row in np.flatnonzero(limited).tolist():
        if why := beyond_limit(view, row, reason_of(jobs.reason[row])):
            yield row, Never(why)


def obstacles(view: View) -> dict[int, str]:
    """Return, by row of the pending jobs, what keeps a job from any start and what ends that, in sentences."""
    return {row: " ".join(words) for row, words in _obstacles(view).items()}


def obstacle(view: View, row: int) -> tuple[str, str] | None:
    """Return what keeps one pending job from any start, and what ends that; None where nothing does so for good."""
    some, at = with_components(view, row)
    return _obstacles(some).get(at)


def why_never(view: View, row: int) -> tuple[str, str] | None:
    """Return why one pending job cannot run as it is, and what ends that; None where it can."""
    some, at = with_components(view, row)
    one = cannot_run(some).get(at)
    return _never_words(view.pending, row, one) if one else None


def beyond_partition(view: View, row: int) -> tuple[str, str] | None:
    """Return what of a request one pending job's partitions never allow, and what ends that; None if nothing."""
    one = never(view.pending.take(np.array([row])), view.nodes, view.partitions).get(0)
    return _never_words(view.pending, row, one) if one else None


def _obstacles(view: View) -> dict[int, tuple[str, str]]:
    found = {row: _never_words(view.pending, row, one) for row, one in cannot_run(view).items()}
    for row in np.flatnonzero(view.pending.reservation.nonempty()).tolist():
        if words := too_large_for_own(view, row):
            found.setdefault(row, words)
    unshown = unshown_nodes(view)
    named, few = _lacks_nodes(view)
    few[list(unshown)] = False  # those that are not shown may take it
    for row in np.flatnonzero(named | few).tolist():
        found.setdefault(row, _down_words(view, row))
    return unshown | found


def _slurms(reason: str) -> str:
    """Return Slurm's reason with what it means."""
    found = reason_of(reason)
    return f"{found.word}: {found.clause}"


def _never_words(jobs: JobTable, row: int, one: Never) -> tuple[str, str]:
    if one.change:
        other = ", or another partition," if one.elsewhere else ""
        fix = f"'scontrol update jobid={jobs.job_id[row]} {one.change}'{other} lets it run."
    else:
        fix = "It starts only after its request or the cluster has changed."
    return f"It cannot run as it is: {one.why}.", fix


def _lacks_nodes(view: View) -> tuple[BoolArray, BoolArray]:
    """Select the pending jobs that ask for a node which is not up, and those for which too few are, of enough."""
    jobs, away = view.pending, _away(view.nodes)
    if not away.any():
        return np.zeros(len(jobs), dtype=np.bool_), np.zeros(len(jobs), dtype=np.bool_)
    kind, allowed = nodes_by_kind(view, jobs)
    left, there = (allowed & ~away).sum(axis=1)[kind], allowed.sum(axis=1)[kind]
    names = set(view.nodes.name.take(away))
    named = jobs.required_nodes.map([bool(names & set(expanded(text))) for text in jobs.required_nodes.names], np.bool_)
    return named, np.asarray((left < np.maximum(jobs.nodes, 1)) & (there > 0), dtype=np.bool_)


def _away(nodes: NodeTable) -> BoolArray:
    """Select the nodes that take no jobs until somebody acts; those that power saving switched off take some."""
    return np.asarray(~nodes.usable, dtype=np.bool_)


def out_of_service(view: View, row: int) -> str:
    """Return which nodes that the job in *row* may use take no jobs, why and since when; empty where all take some."""
    kind, allowed = nodes_by_kind(view, view.pending.take(np.array([row])))
    return _told(view, np.flatnonzero(allowed[kind[0]] & _away(view.nodes)))


def _told(view: View, at: IntArray) -> str:
    """Return the states of the first nodes *at* these rows, and how many more there are."""
    told = [_node_words(view.nodes, node, view.now_s) for node in at[:NAMED_MOST].tolist()]
    return "; ".join(told) + (f", and {len(at) - NAMED_MOST} more" if len(at) > NAMED_MOST else "")


def _down_words(view: View, row: int) -> tuple[str, str]:
    """Return which nodes of the job in *row* take no jobs, why and since when, and what would help."""
    jobs, nodes, away = view.pending, view.nodes, _away(view.nodes)
    required = set(expanded(jobs.required_nodes[row]))
    kind, allowed = nodes_by_kind(view, jobs.take(np.array([row])))
    asked = np.array([name in required for name in nodes.name], dtype=np.bool_) & away
    at = np.flatnonzero(asked if asked.any() else allowed[kind[0]] & away)
    back = "It starts only after an administrator has returned "
    back += "it to service" if len(at) == 1 else "some of them to service"
    if asked.any():
        begin = "It asks for " + ("a node that takes no jobs" if len(at) == 1 else "nodes that take no jobs")
        free = f", or without them: 'scontrol update jobid={jobs.job_id[row]} reqnodelist='."
    else:
        begin, free = "Too few of the nodes that it may use take jobs", "."
    return f"{begin}: {_told(view, at)}.", f"{back}{free}"


def _node_words(nodes: NodeTable, node: int, now_s: float) -> str:
    """Return the state of a node, since when, and the words of who set it."""
    state = nodes.state[node].lower()
    word = "drained" if "drain" in state else "down" if "down" in state else state or "down"
    since_s = now_s - float(nodes.down_since_s[node])
    words = f"{nodes.name[node]} is {word}" + (f" for {spell(since_s)}" if np.isfinite(since_s) else "")
    if not nodes.down_reason[node]:
        return words
    by = f", by {nodes.down_by[node]}" if nodes.down_by[node] else ""
    return f"{words} ({nodes.down_reason[node]}{by})"
