"""The topology of the network from ``scontrol show topology``, and what jobs ask of it from ``scontrol show job``."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ...cluster.columns import Labels
from ...cluster.jobs import JobTable
from ...cluster.text.hostlist import expanded
from ...cluster.text.tres import seconds
from ...cluster.topology import FLAT, Topology, TopologyRequest, Unit, topology_request_text

SHOW = ("scontrol", "show", "topology")

JOBS_MOST = 50
"""The most jobs that are asked about after one observation; the others have their turn after the next ones."""

_SWITCH = re.compile(r"^SwitchName=(\S+) Level=([0-9]{1,3}) .*?Nodes=(\S+)", re.MULTILINE)
_BLOCK = re.compile(r"^(?:Aggregated)?Block(?:Name)?=(\S+) BlockIndex=[0-9]+ Nodes=(\S+) BlockSize=([0-9]{1,6})", re.M)
_OTHER = re.compile(r"\s*([A-Z][a-z]+)(?:Name)?=\S+ .*Nodes=")
_ASKED = re.compile(r" (Switches|SegmentSize|OverSubscribe|Exclusive)=(\S+)")
Levels = tuple[tuple[Unit, ...], ...]

_NO_TOPOLOGY = ("topology/flat", "topology/default", "topology/none", "")


def is_flat(plugin: str) -> bool:
    """Report whether a TopologyPlugin of scontrol's configuration is one without units."""
    return plugin.split(",")[0].strip() in _NO_TOPOLOGY


def read_topology(text: str) -> Topology:
    """Return the blocks or the switches in the output of ``scontrol show topology``; FLAT where there are none."""
    levels: dict[int, list[Unit]] = {}
    if blocks := _BLOCK.findall(text):
        for name, nodes, size in blocks:
            levels.setdefault(int(size), []).append(Unit(name, tuple(expanded(nodes)), int(size)))
        plugin = "block"
    else:
        for name, level, nodes in _SWITCH.findall(text):
            names = tuple(expanded(nodes))
            levels.setdefault(int(level), []).append(Unit(name, names, len(names)))
        plugin = "tree"
    ordered = tuple(tuple(levels[level]) for level in sorted(levels))
    if ordered:
        return Topology(plugin, _with_networks(ordered) if plugin == "tree" else ordered)
    other = _OTHER.match(text)
    return Topology(other[1].lower()) if other else FLAT


def _with_networks(levels: Levels) -> Levels:
    """Return the *levels* of a tree, the last of them with all switches that no other one connects."""
    networks: list[Unit] = []
    for unit in (unit for level in reversed(levels) for unit in level):
        if not any(set(unit.nodes) <= set(above.nodes) for above in networks):
            networks.append(unit)
    return levels if set(networks) <= set(levels[-1]) else (*levels, tuple(networks))


def request_in(text: str, job_id: int) -> str:
    """Return what one job asks of the topology, from its line of ``scontrol --oneliner show job``; empty for nothing.

    Of a field that is there twice the last one counts, since the job's name and command stand before it. An owner who
    forges one tells us of his own job what any option of sbatch could have told.
    """
    line = text.partition("\n")[0]
    if not line.startswith(f"JobId={job_id} "):
        return ""
    fields = dict(_ASKED.findall(line))
    switches, at, wait = fields.get("Switches", "").partition("@")
    segment = fields.get("SegmentSize", "")
    asked = TopologyRequest(
        int(switches) if switches.isdecimal() else 0,
        int(seconds(wait)) if at and wait else 0,
        int(segment) if segment.isdecimal() else 0,
        "TOPO" in (fields.get("Exclusive", ""), fields.get("OverSubscribe", "")),
    )
    return topology_request_text(asked)


class TopologyRequests:
    """What jobs on several nodes ask of the topology: each is asked about once, since squeue does not show it."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, float], str] = {}

    def filled(self, jobs: JobTable, query: Callable[[Sequence[str]], str]) -> JobTable:
        """Return *jobs* with the column ``topology_request``; *query* runs a command and returns what it prints."""
        keys = list(zip(jobs.job_id.tolist(), jobs.submitted_s.tolist(), strict=True))
        left = JOBS_MOST
        for row, key in enumerate(keys):
            if key in self._known or not left or jobs.nodes[row] < 2:
                continue
            self._known[key] = request_in(query(["scontrol", "show", "job", str(key[0]), "--oneliner"]), key[0])
            left -= 1
        return jobs.changed(topology_request=Labels.of(self._known.get(key, "") for key in keys))

    def forget_all_but(self, jobs: Sequence[JobTable]) -> None:
        """Forget the jobs that Slurm no longer lists."""
        there = {key for one in jobs for key in zip(one.job_id.tolist(), one.submitted_s.tolist(), strict=True)}
        self._known = {key: text for key, text in self._known.items() if key in there}
