"""Excluded nodes: one list per pending job, of what steering excludes and of overloaded nodes that it left. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..cluster.actions import Action, Steer, Unsteer, job_of
from ..cluster.columns import BoolArray, IntArray, Labels
from ..cluster.exclusions import ANY_TYPE, sent_to
from ..cluster.jobs import JobTable
from ..cluster.may_have import Allowances
from ..cluster.state import View
from ..cluster.text.gpu_types import several
from ..cluster.text.hostlist import expanded, fold
from .job_nodes import node_part
from .node_use import NodeUse
from .not_repeated import STEER, not_repeated
from .rules import MigrationRules


def kept_off(view: View, terms: MigrationRules | None) -> dict[int, frozenset[str]]:
    """Return the nodes that pending jobs are kept off, by row: for a while, and where enough others can hold them.

    These are the nodes that a job left, and all that are overloaded now: it would be slowed down there too.
    """
    jobs, now_s = view.pending, view.now_s
    if terms is None or not (jobs.left_s > 0).any():
        return {}
    some = (jobs.left_s > now_s - terms.every_s) & (jobs.submitted_s > now_s - terms.patience_s)
    some &= ~nodes_chosen(jobs) & ~jobs.off & ~jobs.shares & ~not_repeated(view, jobs, STEER)
    nodes, overloaded = view.nodes, NodeUse(view, terms.overload).overloaded.any(axis=1)
    found = {}
    for row in np.flatnonzero(some).tolist():
        here = overloaded & nodes.with_gpus_for(jobs.partition[row], jobs.gpu_type[row])
        left = frozenset(expanded(jobs.left_nodes[row]))
        lists = (left | frozenset(nodes.name.take(here)), left) if left else ()
        if off := next((each for each in lists if _others_hold(view, row, each)), None):
            found[row] = off
    return found


def unsafe(view: View, off: Mapping[int, frozenset[str]]) -> IntArray:
    """Return the pending rows that must not start yet: nodes that they are kept *off* are not excluded so far."""
    excluded = view.pending.excluded_nodes
    return np.array([row for row, left in off.items() if not left <= set(expanded(excluded[row]))], dtype=np.int64)


def exclude_wishes(view: View, off: Mapping[int, frozenset[str]], steers: Sequence[Action]) -> list[Action]:
    """Return the changes of excluded nodes for both reasons: what steering wants, and nodes that jobs are kept *off*.

    A job has one list of both. Where that leaves no node, it keeps only what it left.
    """
    jobs = view.pending
    rows = {int(jobs.job_id[row]): row for row in off}
    mine = {job_of(wish): wish for wish in steers if job_of(wish) in rows}
    lists = [_one_list(view, row, off[row], mine.get(job_id)) for job_id, row in rows.items()]
    wishes = [wish for wish in lists if wish is not None] + [wish for wish in steers if job_of(wish) not in rows]
    return _from_present(jobs, wishes + _shorter_lists(view, off, {job_of(wish) for wish in wishes}))


def _from_present(jobs: JobTable, wishes: list[Action]) -> list[Action]:
    """Return *wishes* with the list that each job has now: another one by then is somebody else's, and stays."""
    present = dict(zip(jobs.job_id.tolist(), jobs.excluded_nodes, strict=True)) if wishes else {}
    return [
        replace(wish, before=present[wish.job_id]) if isinstance(wish, Steer | Unsteer) else wish for wish in wishes
    ]


def _one_list(view: View, row: int, left: frozenset[str], steers: Action | None) -> Action | None:
    """Return the change that makes one list of the nodes that a job *left* and those that steering wants excluded."""
    jobs = view.pending
    present, excluded = jobs.steered[row], frozenset(expanded(jobs.excluded_nodes[row]))
    if excluded and not present:
        return None  # somebody else's list
    if isinstance(steers, Steer):
        types, nodes = steers.types, frozenset(expanded(steers.excluded)) | left
    elif steers is None and sent_to(present):
        types, nodes = present, excluded | left
    else:
        types, nodes = ANY_TYPE, left
    if types != ANY_TYPE and not _others_hold(view, row, nodes):
        types, nodes = ANY_TYPE, left
    if (types, nodes) == (present, excluded):
        return None
    return Steer(int(jobs.job_id[row]), types, fold(sorted(nodes)))


def _shorter_lists(view: View, off: Mapping[int, frozenset[str]], changed: Collection[int]) -> list[Action]:
    """Return the ends of exclusions of nodes that jobs left earlier, and are not kept *off* any more."""
    jobs, found, names = view.pending, list[Action](), view.pending.steered.names
    if not any(names):
        return found
    ours = jobs.steered.map([types == ANY_TYPE for types in names], np.bool_)
    ours |= (jobs.left_s > 0) & jobs.steered.nonempty()
    for row in np.flatnonzero(ours).tolist():
        job_id, types, excluded = int(jobs.job_id[row]), jobs.steered[row], set(expanded(jobs.excluded_nodes[row]))
        if job_id in changed or row in off:
            continue
        if types == ANY_TYPE:
            found.append(Unsteer(job_id))
            continue
        open_again = excluded & _of_types(view, types)  # steering itself excludes other types alone
        if open_again and excluded - open_again:
            found.append(Steer(job_id, types, fold(sorted(excluded - open_again))))
    return found


def _of_types(view: View, types: str) -> set[str]:
    nodes = view.nodes
    inside = nodes.gpu_type.map([name in several(types) for name in nodes.gpu_type.names], np.bool_)
    return set(nodes.name.take(inside))


def _others_hold(view: View, row: int, excluded: frozenset[str]) -> bool:
    """Return whether enough nodes outside *excluded* that are up hold a pending job, free or not."""
    jobs, nodes = view.pending, view.nodes
    many = max(int(jobs.nodes[row]), 1)
    fits = nodes.with_gpus_for(jobs.partition[row], jobs.gpu_type[row])
    fits &= (nodes.gpus >= -(-jobs.gpus[row] // many)) & ~among(nodes.name, fold(sorted(excluded)))
    may = Allowances(nodes, view.partitions)
    return may.enough(jobs.partition[row], many, node_part(jobs, row), fits)


def among(names: Labels, hosts: str) -> BoolArray:
    """Select the nodes among *names* that a host list names."""
    wanted = set(expanded(hosts))
    return names.map([name in wanted for name in names.names], np.bool_)


def nodes_chosen(jobs: JobTable) -> BoolArray:
    """Select jobs whose owners, or an admin, chose nodes: by name, by feature or by a reservation."""
    found = np.zeros(len(jobs), dtype=np.bool_)
    for column in (jobs.required_nodes, jobs.features, jobs.reservation):
        found |= column.nonempty()
    return np.asarray(found | (jobs.excluded_nodes.nonempty() & ~jobs.steered.nonempty()))
