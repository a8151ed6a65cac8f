"""Explanations of right-sizing for ``why`` and ``explain``: the CPUs and memory that we ask for a job, and why."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...cluster.actions import RestoreSize, Rightsize
from ...cluster.node_request import NodeRequest, read_request
from ...cluster.plan import Plan
from ...cluster.state import View
from ...cluster.text.plural import count
from ...decide.rules import RightsizingRules, Rules


def rightsizing_words(view: View, plan: Plan, rules: Rules, job_id: int) -> Iterator[str]:
    """Yield sentences about what right-sizing does to a pending job."""
    row = view.pending.row_of(job_id)
    if row is not None:
        yield from _words(view, plan, row, rules.rightsizing)


def _words(view: View, plan: Plan, row: int, rules: RightsizingRules | None) -> Iterator[str]:
    jobs, nodes = view.pending, max(int(view.pending.nodes[row]), 1)
    own, present = read_request(jobs.own_request[row]), read_request(jobs.node_request[row])
    for action in plan.actions:
        if isinstance(action, Rightsize | RestoreSize) and action.job_id == int(jobs.job_id[row]):
            before, after = map(
                read_request, (action.own, action.after if isinstance(action, Rightsize) else action.own)
            )
            if before is None or after is None:
                continue
            if isinstance(action, RestoreSize):
                yield f"We let it ask for {_size(after, nodes)} again, as its owner did."
            else:
                yield f"We let it ask for {_size(after, nodes)} in place of {_size(before, nodes)}.{_use(view, row)}"
            return
    if own is not None and present is not None:
        yield f"We let it ask for {_size(present, nodes)}; its owner asked for {_size(own, nodes)}.{_use(view, row)}"
    elif rules is not None and jobs.request_changed[row]:
        yield "Somebody has changed its CPUs or memory after us: we leave them as they are."


def _size(request: NodeRequest, nodes: int) -> str:
    each = " on each of its nodes" if nodes > 1 else ""
    return f"{count(request.node_cpus(nodes), 'CPU')} and {request.node_memory_mib(nodes)} MiB{each}"


def _use(view: View, row: int) -> str:
    """Return a sentence about the known use of a job's kind, empty where there is none."""
    cpus, memory_mib = float(view.pending.used_cpus[row]), float(view.pending.used_memory_mib[row])
    parts = [f"{cpus:.3g} CPUs"] if np.isfinite(cpus) else []
    parts += [f"{memory_mib:.0f} MiB"] if np.isfinite(memory_mib) else []
    return f" Runs of its kind used {' and '.join(parts)} of a node at most." if parts else ""
