"""The plan of backfill against the plain rule: the first step at which the least free over the whole job is enough."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.forecast import Forecast
from slurmsched.cluster.jobs import JobState, job_table
from slurmsched.cluster.state import View
from slurmsched.foresee.snapshot import resumed, unplaced
from slurmsched.policies.selection.free_resources import FreeResources
from slurmsched.policies.selection.node_search import find
from slurmsched.policies.selection.planned_room import FOUND, blank_outlook, earliest, look, reserve
from slurmsched.policies.selection.resources import CHOSEN, CPUS, GPUS, NEXT, NODE, NONE, TAKEN
from slurmsched.policies.selection.struct_arrays import records
from slurmsched.simulator.cluster_spec import ClusterSpec, nodes_of, partition_of

NOW_S, WINDOW_S = 1_700_000_000.0, 40_000.0
CONFIG = {"PriorityType": "priority/multifactor", "SelectTypeParameters": "CR_CORE_MEMORY"}


@dataclass
class PlainPlan:
    """What is free from each moment on, each moment written out; nothing is remembered, and no moment is left out."""

    stage: object
    resolution_s: float
    whole_nodes: bool
    at_s: list[float] = field(default_factory=lambda: [NOW_S])
    free: list[np.ndarray] = field(default_factory=list)  #: GPUs, CPUs and memory of each node

    def __post_init__(self) -> None:
        free, running = self.stage.resources.free, self.stage.running
        self.free.append(np.array([free.gpus, free.cpus, free.memory_mib], dtype=float))
        ends = list(zip(running.keys[: running.many[0]], running.rows[: running.many[0]], strict=True))
        while ends:
            at_s, until_s = self._interval(ends[0][0])
            now = self.free[-1].copy()
            while ends and ends[0][0] <= until_s:
                self._give_back(now, ends.pop(0)[1])
            self.at_s.append(max(at_s, self.at_s[-1]))
            self.free.append(now)

    def _interval(self, end_s: float) -> tuple[float, float]:
        if self.whole_nodes:
            at_s = np.floor(end_s / self.resolution_s) * self.resolution_s
            return at_s, np.nextafter(at_s + self.resolution_s, at_s)
        later_s = max(end_s, NOW_S + self.resolution_s) - NOW_S
        at_s = max(NOW_S + np.ceil(later_s / self.resolution_s) * self.resolution_s, self.at_s[-1])
        return at_s, at_s

    def _give_back(self, free: np.ndarray, row: int) -> None:
        links, spot = self.stage.held.links, self.stage.held.first[row]
        while spot != NONE:
            memory_mib = self.stage.requests.memory_mib[row]
            free[:, links[NODE, spot]] += (links[GPUS, spot], links[CPUS, spot], memory_mib)
            spot = links[NEXT, spot]

    def earliest(self, row: int, barred: np.ndarray) -> int:
        for step, at_s in enumerate(self.at_s):
            if at_s > NOW_S + WINDOW_S:
                return NONE
            end_s = at_s + self.stage.life.plan_s[row]
            during = [now for later_s, now in zip(self.at_s[step:], self.free[step:], strict=True) if later_s < end_s]
            gpus, cpus, memory_mib = np.min([*during, self.free[step]], axis=0)
            least = records(FreeResources(gpus.astype(np.int64), cpus.astype(np.int64), memory_mib))
            found = find(self.stage.resources, self.stage.requests, row, least, barred)
            if found:
                return step
        return NONE

    def reserve(self, row: int, step: int, taken: list[tuple[int, int]]) -> None:
        end_s, requests = self.at_s[step] + self.stage.life.plan_s[row], self.stage.requests
        after = next((at for at in range(step, len(self.at_s)) if self.at_s[at] >= end_s), len(self.at_s))
        if after == len(self.at_s) or self.at_s[after] > end_s:
            self.at_s.insert(after, end_s)
            self.free.insert(after, self.free[after - 1].copy())
        for free in self.free[step:after]:
            for node, gpus in taken:
                if step > 0 and self.whole_nodes:
                    free[:2, node] = 0
                    continue
                cpus = self.stage.resources.has.cpus[node] if requests.exclusive[row] else requests.cpus[row]
                free[:, node] -= (gpus, cpus, requests.memory_mib[row])


def forecast(runtime_s: list[float]) -> Forecast:
    column = np.array(runtime_s, dtype=float)
    return Forecast(column, column, column, Labels.of(["said"] * len(column)))


@st.composite
def views(draw: st.DrawFn) -> View:
    """Draw nodes, jobs that run on them for some while yet, and jobs that wait."""
    sizes = draw(st.lists(st.sampled_from([0, 2, 4, 8]), min_size=1, max_size=5))
    number = len(sizes)
    names = [f"n{at}" for at in range(number)]
    where = draw(st.lists(st.integers(0, number - 1), max_size=8))
    held = [min(sizes[at], draw(st.integers(0, 4))) for at in where]
    left_s = [60.0 * draw(st.integers(1, 300)) for _ in where]
    running = job_table(
        len(where),
        job_id=np.arange(1, len(where) + 1),
        gpus=held,
        cpus=[draw(st.integers(1, 6)) for _ in where],
        memory_mib=[1000.0 * draw(st.integers(0, 8)) for _ in where],
        partition=["gpu"] * len(where),
        state=[JobState.RUNNING] * len(where),
        started_s=[NOW_S - 60.0] * len(where),
        time_limit_s=[60.0 + left for left in left_s],
        node_list=[names[at] for at in where],
    )
    waiting = draw(st.integers(1, 14))
    kinds = [
        (draw(st.integers(0, 10)), draw(st.integers(1, 3)), draw(st.integers(1, 12)), draw(st.integers(0, 20)))
        for _ in range(draw(st.integers(1, 4)))  # few forms, so that many jobs are of the same
    ]
    some = [draw(st.sampled_from(kinds)) for _ in range(waiting)]
    limit_s = [60.0 * draw(st.integers(1, 400)) for _ in some]
    pending = job_table(
        waiting,
        job_id=np.arange(100, 100 + waiting),
        gpus=[gpus for gpus, *_ in some],
        nodes=[nodes for _, nodes, *_ in some],
        cpus=[nodes * cpus for _, nodes, cpus, _ in some],
        memory_mib=[1000.0 * nodes * memory for _, nodes, _, memory in some],
        exclusive=[draw(st.integers(0, 4)) == 0 for _ in some],
        time_limit_s=limit_s,
        eligible_s=np.full(waiting, NOW_S),
        priority=np.arange(100 + waiting, 100, -1),
        partition=["gpu"] * waiting,
        reason=["Priority"] * waiting,
    )
    nodes = nodes_of(
        number,
        1,
        name=names,
        cpus=np.array([draw(st.sampled_from([8, 16])) for _ in sizes]),
        memory_mib=np.array([1000.0 * draw(st.sampled_from([16, 32])) for _ in sizes]),
        partitions=["gpu"] * number,
        gpus_used=np.bincount(where, held, number).astype(np.int64) if where else np.zeros(number, dtype=np.int64),
    )
    view = View(
        NOW_S,
        pending,
        running,
        replace(nodes, gpus=np.array(sizes)),
        partition_of("gpu", ",".join(names)),
        ClusterSpec.of(1, 1).qos,
        forecast(limit_s),
        forecast([60.0 + left for left in left_s]),
    )
    return view.take(~np.isin(np.arange(waiting), list(unplaced(view, CONFIG))))


@given(views(), st.booleans(), st.sampled_from([60.0, 300.0]), st.integers(0, 31))
@examples(150)
def test_the_plan_is_that_of_the_plain_rule_job_by_job(view, whole_nodes, resolution_s, kept):
    model = resumed(view, CONFIG).model
    stage = model.stage
    waiting, nodes = range(len(view.running), len(view.running) + len(view.pending)), len(view.nodes)
    fast = blank_outlook(nodes, 400, len(stage.requests.gpus), whole_nodes)
    look(fast, stage.resources, NOW_S)
    fast.barred[:] = [kept == at for at in range(nodes)]
    plain = PlainPlan(stage, resolution_s, whole_nodes)
    for row in waiting:
        wanted = plain.earliest(row, fast.barred)
        wanted_at_s = None if wanted == NONE else plain.at_s[wanted]
        step = earliest(fast, stage, row, resolution_s, NOW_S + WINDOW_S, False)
        assert (None if step == NONE else float(fast.at_s[step])) == wanted_at_s
        if step == NONE:
            continue
        many, room = int(fast.counts[FOUND]), stage.resources.room
        taken = list(zip(room[CHOSEN, :many].tolist(), room[TAKEN, :many].tolist(), strict=True))
        assert plain.earliest(row, fast.barred) == wanted
        assert taken == list(zip(room[CHOSEN, :many].tolist(), room[TAKEN, :many].tolist(), strict=True))
        reserve(fast, stage, row, step, resolution_s, True)
        plain.reserve(row, wanted, taken)
