"""Power saving: nodes that Slurm switches off and on, and when each can run jobs again (power_save guide of Slurm)."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Mapping
from enum import IntEnum
from statistics import median

import numpy as np

from .filling import NOTHING, Knowing, NewColumns
from .jobs import JobState, JobTable
from .nodes import NodeTable
from .state import ClusterState
from .text.hostlist import expanded

LAST = 20  #: resumes of a kind of node that count, the newest
LEAST = 3  #: resumes without which Slurm's ResumeTimeout holds
RESUME_S, SUSPEND_S = 60.0, 30.0  #: Slurm's defaults of ResumeTimeout and SuspendTimeout (slurm.conf(5))

_Kind = tuple[str, int, int]  # GPU type, GPUs and CPUs of a node
_WORDS = re.compile(r"power(?:ed|ing)?_(?:down|up)", re.IGNORECASE)


class NodePower(IntEnum):
    """What power saving does with a node."""

    UP = 0
    GOING_DOWN = 1
    DOWN = 2
    COMING_UP = 3


def power_of(state: str) -> NodePower:
    """Return what power saving does with a node in *state*, in the words of sinfo's StateComplete."""
    words = {word.lower() for word in _WORDS.findall(state)}
    if words & {"powering_up", "power_up"}:
        return NodePower.COMING_UP
    if words & {"powering_down", "power_down"}:
        return NodePower.GOING_DOWN
    return NodePower.DOWN if words else NodePower.UP


def without_power(state: str) -> str:
    """Return *state* without what only power saving makes of it: a node that comes up does not respond yet."""
    rest = _WORDS.sub("", state)
    return re.sub("not_resp\\w*|no_respond", "", rest, flags=re.IGNORECASE) if power_of(state) else rest


class ResumeTimes(Knowing):
    """How long nodes take to power up, by GPU type, GPUs and CPUs; in memory, from jobs that waited for them.

    A job that Slurm gives nodes that are switched off is CONFIGURING from then on, and its start is set anew when it
    begins to run. *now_s* is the Unix time, *config* the output of ``scontrol show config``.
    """

    def __init__(self, now_s: Callable[[], float], config: Callable[[], Mapping[str, str]]) -> None:
        self._now_s, self._config = now_s, config
        self._since: dict[str, float] = {}  # when nodes began to power up
        self._leaving: dict[str, float] = {}  # when nodes began to power down
        self._took: dict[_Kind, deque[float]] = {}

    def columns(self, state: ClusterState) -> NewColumns:
        """Note what *state* shows; return the seconds until each node can run jobs."""
        power = [power_of(text) for text in state.nodes.state.names]
        if not any(power) and not self._since:
            return NOTHING
        now_s, nodes = self._now_s(), state.nodes
        of_node = nodes.state.map(power, np.int64).tolist()
        self._note(nodes, of_node, state.running, now_s)
        ready_s = [
            self._ready_s(name, kind, NodePower(its), now_s)
            for name, kind, its in zip(nodes.name, _kinds(nodes), of_node, strict=True)
        ]
        return {"nodes": {"ready_s": np.array(ready_s, dtype=np.float64)}}

    def resume_s(self, kind: _Kind) -> float:
        """Return how long a node of a kind takes to power up: the median of resumes, else Slurm's ResumeTimeout."""
        took = self._took.get(kind, ())
        return median(took) if len(took) >= LEAST else self._seconds("ResumeTimeout", RESUME_S)

    def _note(self, nodes: NodeTable, power: list[int], running: JobTable, now_s: float) -> None:
        """Note which nodes power up and down, and how long those took that have begun to run jobs."""
        waiting, started = _starts(running, JobState.CONFIGURING), _starts(running, JobState.RUNNING)
        since, leaving = dict[str, float](), dict[str, float]()
        for name, kind, its in zip(nodes.name, _kinds(nodes), power, strict=True):
            if its == NodePower.COMING_UP:
                since[name] = min(self._since.get(name, now_s), *waiting.get(name, [now_s]))
            elif its == NodePower.GOING_DOWN:
                leaving[name] = self._leaving.get(name, now_s)
            elif its == NodePower.UP and name in self._since:
                if name in waiting:  # it is up, and its jobs are about to run
                    since[name] = self._since[name]
                elif began := [start_s for start_s in started.get(name, ()) if start_s >= self._since[name]]:
                    self._took.setdefault(kind, deque(maxlen=LAST)).append(min(began) - self._since[name])
        self._since, self._leaving = since, leaving

    def _ready_s(self, name: str, kind: _Kind, power: NodePower, now_s: float) -> float:
        """Return the seconds until a node can run jobs."""
        if power == NodePower.UP:
            return 0.0
        resume_s = self.resume_s(kind)
        if power == NodePower.COMING_UP:
            spent_s = now_s - self._since[name]
            late_s = max(min(spent_s, self._seconds("ResumeTimeout", RESUME_S) - spent_s), 1.0)
            return resume_s - spent_s if spent_s < resume_s else late_s
        if power == NodePower.GOING_DOWN:
            rest_s = self._seconds("SuspendTimeout", SUSPEND_S) - (now_s - self._leaving[name])
            return max(rest_s, 1.0) + resume_s
        return resume_s

    def _seconds(self, name: str, default_s: float) -> float:
        number = self._config().get(name, "").partition(" ")[0]
        return float(number) if number.isdecimal() else default_s


def _kinds(nodes: NodeTable) -> list[_Kind]:
    return list(zip(nodes.gpu_type, nodes.gpus.tolist(), nodes.cpus.tolist(), strict=True))


def _starts(running: JobTable, state: JobState) -> dict[str, list[float]]:
    """Return the start times of the jobs in *state* on each node."""
    found: dict[str, list[float]] = {}
    for row in np.flatnonzero((running.state == state) & np.isfinite(running.started_s)).tolist():
        for name in expanded(running.node_list[row]):
            found.setdefault(name, []).append(float(running.started_s[row]))
    return found
