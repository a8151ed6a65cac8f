"""Rows of ``python -m tests.bench.training``: Gavel, Synergy and Themis beside their references.

Seconds are processor time: of a whole replay after compilation, or of one program with its set-up.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from slurmsched.cluster.columns import FloatArray, IntArray
from slurmsched.research.scaling.auction import hold_auction
from slurmsched.research.scaling.gavel import in_pairs
from slurmsched.research.scaling.gavel_programs import (
    ShareProgram,
    alone,
    equal_split,
    fairness_need,
    isolated,
    useful,
)
from slurmsched.research.training.cpu_profiles import ProfiledJobs, read_profiles
from slurmsched.research.training.rounds import train
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.speeds.performance import Performance
from slurmsched.simulator.speeds.type_speeds import TypedJobs, read_throughputs
from slurmsched.simulator.traces.registry import read
from slurmsched.simulator.workload.workload import Workload

DATA = Path(__file__).parents[3] / "shared" / "data"
BLOX = DATA / "blox"

GAVEL_S = {
    "gavel_single_100": {
        "gavel-las-blind": 21745.8,
        "gavel-las": 15709.4,
        "gavel-las pack=yes": 15766.8,
        "gavel-ftf-blind": 21715.7,
        "gavel-ftf": 15886.2,
        "gavel-makespan": 16568.1,
    },
    "gavel_multi_100": {"gavel-las-blind": 21899.0, "gavel-las": 16344.2, "gavel-ftf": 16647.3},
}
SYNERGY_S = {
    "fifo synergy=proportional": 32364.3,
    "fifo synergy=greedy": 28260.3,
    "fifo synergy=tune": 27288.3,
    "srtf synergy=proportional": 22260.3,
    "srtf synergy=tune": 19257.3,
    "las synergy=proportional": 34596.3,
    "las synergy=tune": 28677.3,
}


class TypeRow(NamedTuple):
    """A figure beside its reference."""

    workload: str
    what: str
    reference: float
    ours: float
    off_by: float  #: as a share of the reference
    seconds: float


def rows() -> Iterator[TypeRow]:
    """Yield every figure of these policies."""
    yield from _gavel()
    yield from _synergy()
    yield from _programs()
    yield from _auctions()


def _row(workload: str, what: str, reference: float, ours: float, seconds: float) -> TypeRow:
    return TypeRow(workload, what, reference, ours, ours / reference - 1 if reference else ours, seconds)


def _gavel() -> Iterator[TypeRow]:
    fleet = ClusterSpec.of_types({"v100": 12, "p100": 12, "k80": 12})
    speeds = read_throughputs(str(DATA / "gavel_throughputs.json"))
    for workload, lines in GAVEL_S.items():
        jobs = read(BLOX / f"{workload}.csv").workload
        yield from _replays(workload, lines, jobs, fleet, TypedJobs(jobs, speeds, fleet.nodes), 360.0)


def _synergy() -> Iterator[TypeRow]:
    fleet = ClusterSpec.of(2, 8)
    fleet = replace(fleet, nodes=replace(fleet.nodes, cpus=np.full(2, 24), memory_mib=np.full(2, 500 * 1024.0)))
    jobs = read(BLOX / "synergy_dynamic_100.csv").workload
    performance = ProfiledJobs(jobs, read_profiles(str(BLOX / "synergy_profiles.csv")), fleet)
    yield from _replays("synergy_dynamic_100", SYNERGY_S, jobs, fleet, performance, 300.0)


def _replays(
    workload: str, lines: dict[str, float], jobs: Workload, fleet: ClusterSpec, performance: Performance, beat_s: float
) -> Iterator[TypeRow]:
    for number, (line, reference) in enumerate(lines.items()):
        setup = Setup.training(line, beat_s=beat_s, restart_s=0.0)
        if not number:
            train(jobs, fleet, setup, performance)  # to compile
        began_s = time.process_time()
        jct_s = train(jobs, fleet, setup, performance, check=True).end_s - jobs.submit_s
        yield _row(workload, line, reference, float(jct_s.mean()), time.process_time() - began_s)


class _State(NamedTuple):
    throughput: FloatArray
    gpus: IntArray
    of_type: IntArray
    weight: FloatArray
    left: FloatArray
    since_s: FloatArray
    kind: IntArray
    beside: FloatArray

    @classmethod
    def of(cls, facts: dict[str, Any], speeds: dict[str, Any]) -> _State:
        jobs, types = facts["jobs"], list(facts["gpus_of_type"])
        keys = [str((job["model"], job["gpus"])) for job in jobs]
        kinds = list(dict.fromkeys(keys))
        return cls(
            np.array([[speeds[name][key]["null"] for name in types] for key in keys]),
            np.array([job["gpus"] for job in jobs]),
            np.array([facts["gpus_of_type"][name] for name in types]),
            *(np.array([float(job[name]) for job in jobs]) for name in ("weight", "steps_left", "since_s")),
            np.array([kinds.index(key) for key in keys]),
            np.array([[[speeds[n][a].get(b, (0, 0))[0] for n in types] for b in kinds] for a in kinds]),
        )

    def program(self, *, pack: bool = False) -> ShareProgram:
        combinations = alone(self.throughput, self.gpus)
        if pack:
            combinations = useful(in_pairs(combinations, self.kind, self.beside), self.throughput)
        return ShareProgram(combinations, len(self.gpus), self.of_type)

    @property
    def need(self) -> FloatArray:
        return fairness_need(self.throughput, self.gpus, self.weight, self.of_type)


def _programs() -> Iterator[TypeRow]:
    speeds = json.loads((DATA / "gavel_throughputs.json").read_text())
    for facts in json.loads((BLOX / "gavel_vectors.json").read_text()):
        yield from _optima(facts, _State.of(facts, speeds))
    random = np.random.default_rng(0)
    facts["jobs"] = [facts["jobs"][row] for row in random.integers(0, len(facts["jobs"]), 1_024).tolist()]
    facts["gpus_of_type"] = dict.fromkeys(facts["gpus_of_type"], 128)
    large = _State.of(facts, speeds)
    level, seconds = _timed(lambda: large.program().level(large.need))
    yield _row("1024 jobs", "las", level, level, seconds)  # no reference: the time alone


def _optima(facts: dict[str, Any], state: _State) -> Iterator[TypeRow]:
    name, blind = f"{len(state.gpus)} jobs", state._replace(throughput=np.ones_like(state.throughput))
    lone_s = state.left / isolated(state.throughput, state.gpus, state.of_type)
    found: dict[str, Callable[[], float]] = {
        "las_objective": lambda: state.program().level(state.need),
        "las_agnostic_objective": lambda: blind.program().level(blind.need),
        "makespan_s": lambda: 1 / state.program().level(state.left),
        "max_rho": lambda: state.program().finish_time_ratio(state.left, state.since_s, lone_s),
        "las_packed_objective": lambda: state.program(pack=True).level(state.need),
    }
    for key, solve in found.items():
        if key in facts:
            value, seconds = _timed(solve)
            yield _row(name, key, facts[key], value, seconds)
    if "water_filled" in facts:
        levels, seconds = _timed(lambda: state.program().water_filled(state.need))
        for job, (reference, ours) in enumerate(zip(facts["water_filled"], levels.tolist(), strict=True)):
            yield _row(name, f"water_filled of job {job}", reference, ours, seconds)
    for job, split in enumerate(equal_split(state.throughput, state.of_type).tolist()):
        yield _row(name, f"proportional_throughput of job {job}", facts["proportional_throughput"][job], split, 0.0)


def _auctions() -> Iterator[TypeRow]:
    for number, auction in enumerate(json.loads((BLOX / "themis_vectors.json").read_text())["auctions"]):
        values = np.array([[0.0 if rho is None else 1 / rho for rho in app["rho"]] for app in auction["apps"]])
        found, seconds = _timed(lambda values=values: hold_auction(values))
        for key, ours in (("proportional_fair", found.won), ("kept", found.unpaid), ("granted", found.granted)):
            for app, (one, other) in enumerate(zip(auction[key], ours.tolist(), strict=True)):
                yield _row(f"auction {number}", f"{key} of application {app}", float(one), float(other), seconds)


def _timed(solve: Callable[[], Any]) -> tuple[Any, float]:
    began_s = time.process_time()
    return solve(), time.process_time() - began_s
