"""The hardware that a running job has."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .jobs import JobTable
from .nodes import NodeTable
from .text.hostlist import expanded


class Hosts(NamedTuple):
    """The nodes of a running job."""

    gpu_type: str  #: empty where it is not known, or they are of several
    many: int
    gpus: int  #: of the smallest one; 0 where one of them is not known


def run_hosts(jobs: JobTable, nodes: NodeTable) -> list[Hosts]:
    """Return the nodes of each job."""
    known = dict(zip(nodes.name, zip(nodes.gpu_type, nodes.gpus.tolist(), strict=True), strict=True))
    by_code = {code: _hosts(jobs.node_list.names[code], known) for code in np.unique(jobs.node_list.codes).tolist()}
    found = [by_code[code] for code in jobs.node_list.codes.tolist()]
    if not nodes.gpu_types.nonempty().any():
        return found
    mixed = {nodes.name[row] for row in np.flatnonzero(nodes.gpu_types.nonempty()).tolist()}
    several = jobs.node_list.map([not mixed.isdisjoint(expanded(text)) for text in jobs.node_list.names], np.bool_)
    for row in np.flatnonzero(several).tolist():  # the type of its node is that of the first GPU there
        found[row] = found[row]._replace(gpu_type=jobs.gpu_type[row])
    return found


def run_types(jobs: JobTable, nodes: NodeTable) -> list[str]:
    """Return the type of the GPUs of each job's nodes; empty where it is not known, or they are of several."""
    return [hosts.gpu_type for hosts in run_hosts(jobs, nodes)]


def _hosts(text: str, known: dict[str, tuple[str, int]]) -> Hosts:
    found = [known.get(name, ("", 0)) for name in expanded(text)]
    types = {gpu_type for gpu_type, _ in found}
    return Hosts(types.pop() if len(types) == 1 else "", len(found), min((gpus for _, gpus in found), default=0))
