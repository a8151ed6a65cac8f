"""One state of a real Slurm with all powers in use, seen by its adapter and by a simulation: the same Plan."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import pytest
from simulator.test_same_decisions import POLICIES, acted, view_of

from slurmsched.cluster.actions import (
    POWERS,
    AskToStop,
    Hold,
    MoveNodes,
    MovePartition,
    Rank,
    Requeue,
    SetAdminComment,
    Share,
    StartShared,
)
from slurmsched.cluster.columns import Labels, Table
from slurmsched.cluster.jobs import JobTable
from slurmsched.cluster.plan import Plan
from slurmsched.cluster.records.node_loans import LentNodes
from slurmsched.cluster.records.promises import PromiseState
from slurmsched.cluster.state import ClusterState, View
from slurmsched.db.memory import Memory
from slurmsched.decide.ordering.ranking import base_priority
from slurmsched.decide.rules import DeadlineRules, ProfilingRules, Rules, SharingRules
from slurmsched.errors import LabError
from slurmsched.foresee.snapshot import resumed
from slurmsched.lab import Lab, LabSpec, programs, wait_until
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide
from slurmsched.simulator.volatile_store import VolatileStore
from slurmsched.slurm.adapters.command import SlurmCommand
from slurmsched.slurm.adapters.command_runner import CommandRunner

pytestmark = pytest.mark.lab

CONF = (
    "PartitionName=gpu Nodes=n[1-2] Default=YES MaxTime=INFINITE State=UP",
    "PartitionName=profile Nodes=n[3-4] MaxTime=INFINITE PriorityTier=2 State=UP",
)
HOUR_S = 3600.0
CKPT, BOTH = "--comment=slurmsched:ckpt", "--partition=profile,gpu"
OWN = {"gpu": ("n1", "n2"), "profile": ("n3", "n4")}
LENT = {"gpu": ("n1", "n2", "n4"), "profile": ("n3",)}

DEADLINES = DeadlineRules(
    lead_s=60.0, hold_s=2 * HOUR_S, hold_most_s=24 * HOUR_S, reserve=0.0, yields=True, lease_s=1.0, stop_s=600.0
)
HURRIED = replace(DEADLINES, lease_s=HOUR_S, stop_s=0.0)  # who was asked had its time
PROFILING = ProfilingRules("profile", n_max=4, t_s=0.0, wait_s=HOUR_S, home="gpu", pressure=1.0)
SHARING = SharingRules(memory_mib=20_000.0)


@dataclass(frozen=True)
class Recorded:
    """A state of the lab with all that the daemon remembers of it; *jobs* are the ids by the parts that they play."""

    state: ClusterState
    config: dict[str, str]
    now_s: float
    loans: tuple[LentNodes, ...]
    jobs: dict[str, int]

    def views(self) -> tuple[View, View]:
        """The view of the daemon, and that of a simulation that goes on from it."""
        real = view_of(self.state, self.now_s)
        cluster = resumed(real, self.config)
        cluster.validate()
        return real, view_of(cluster.observe(), self.now_s)


@pytest.fixture(scope="module")
def busy_lab() -> Iterator[Lab]:
    """Nodes n1 and n2 in gpu, n3 and n4 in profile, n5 in shared; root acts, since moves of nodes need SlurmUser."""
    if os.geteuid() != 0:
        pytest.skip("moves of nodes need root")
    spec = LabSpec(nodes=5, shared_nodes=1, cpus=16, extra_conf=CONF)
    try:
        programs.check(spec)
    except LabError as error:
        pytest.skip(str(error))
    with tempfile.TemporaryDirectory(prefix="sslab-", dir="/tmp") as directory:
        Path(directory).chmod(0o755)
        with Lab(Path(directory, "lab"), spec) as lab:
            yield lab


@pytest.fixture(scope="module")
def recorded(busy_lab: Lab) -> Recorded:
    return busy_state(busy_lab)


def busy_state(lab: Lab) -> Recorded:
    """A state in which each power has something to do.

    It lasts: what runs does so for an hour, no pending job fits into what is free, and holds end after an hour.
    """
    cluster = SlurmCommand(CommandRunner(environment=lab.env()))
    memory = Memory(VolatileStore.blank(), cluster=lab.cluster)
    jobs: dict[str, int] = {}

    def submit(name: str, gpus: int, *more: str, minutes: int = 60) -> None:
        options = (f"--job-name={name}", f"--gres=gpu:{gpus}", f"--time={minutes}", "--output=/dev/null", *more)
        jobs[name] = lab.submit(*options, "--requeue", "--wrap=sleep 3600", user="alice")

    def until_running(*names: str) -> None:
        wanted = {jobs[name] for name in names}
        wait_until(lambda: wanted <= set(cluster.observe().running.job_id.tolist()), 120.0, f"{names} to run")

    for name, node in (("asked", "n1"), ("willing", "n2")):
        submit(name, 4, CKPT, f"--nodelist={node}")
    submit("stays", 3, "--partition=profile", "--nodelist=n4")
    until_running("asked", "willing", "stays")
    for name, gpus in (("measuring", 2), ("requeued", 1), ("fills", 1)):
        submit(name, gpus, CKPT, BOTH, "--nodelist=n3")
    until_running("measuring", "requeued", "fills")
    for name, gpus in (("one", 1), ("other", 1), ("alone", 1), ("half_way", 1), ("light", 2)):
        submit(name, gpus)
    submit("strict", 4, "--comment=slurmsched:deadline=+1h", minutes=30)
    submit("soft", 4, "--comment=slurmsched:deadline=+1h,50@+3h", minutes=45)
    submit("never", 4, "--comment=slurmsched:deadline=+2m", minutes=30)
    submit("held", 2, minutes=10)
    submit("new", 2, BOTH, minutes=20)
    submit("new_too", 4, BOTH, minutes=10)
    submit("known", 2, BOTH, minutes=15)
    submit("declined", 3, BOTH, "--comment=slurmsched:noprofile", minutes=15)
    for gpus, minutes in ((4, 5), (3, 15), (2, 25)):
        submit(f"plain_{gpus}", gpus, minutes=minutes)

    until_s = float(int(time.time()) + HOUR_S)
    tokens = {"one": "0", "other": "0", "alone": "2", "half_way": "2"}  # the GPUs of n5
    acted(cluster, memory, 1, *(Share(jobs[n], "gpu", "shared", "n5", t, "", until_s) for n, t in tokens.items()))
    acted(cluster, memory, 2, *(StartShared(jobs[name], tokens[name]) for name in ("one", "other", "alone")))
    until_running("one", "other", "alone")
    acted(cluster, memory, 3, AskToStop(jobs["asked"], "URG"), Requeue(jobs["requeued"]))
    wait_until(lambda: jobs["requeued"] in cluster.observe().pending.job_id, 120.0, "the requeued job to wait")
    move = MoveNodes.between(OWN, OWN, LENT)
    answer = SetAdminComment(jobs["strict"], "slurmsched:not-guaranteed")
    held = (Hold(jobs[name], until_s) for name in ("held", "requeued"))
    acted(cluster, memory, 4, Rank(jobs["plain_4"], 7), Rank(jobs["held"], 9), answer, move, *held)
    now_s = time.time()
    state = memory.remember(cluster.observe(), now_s, acting=True).state
    assert len(state.running) == 8
    assert len(state.pending) == len(jobs) - len(state.running)
    light = [jobs[name] for name in (*tokens, "light", "known")]
    tables = {name: measured(getattr(state, name), light) for name in ("pending", "running")}
    by_id = {name: table.take(np.argsort(table.job_id)) for name, table in tables.items()}
    return Recorded(replace(state, **by_id), cluster.facts().config, now_s, move.loans, jobs)


def measured(jobs: JobTable, light: Collection[int]) -> JobTable:
    """The jobs, with those in *light* measured as ones that hardly use their GPUs."""
    rows = np.isin(jobs.job_id, list(light))
    use = {"gpu_util": 0.1, "memory_util": 0.05, "gpu_memory_mib": 3000.0}
    columns = {name: np.where(rows, value, np.nan) for name, value in use.items()}
    return replace(jobs, **columns, measured=rows, share_score=np.where(rows, 0, 2))


def differing(one: Table, other: Table) -> dict[str, tuple[list[object], list[object]]]:
    """The columns in which two tables differ, with the values of both."""
    found = {}
    for column in fields(one):
        values = [getattr(table, column.name) for table in (one, other)]
        texts = isinstance(values[0], Labels)
        same = values[0].equals(values[1]) if texts else np.array_equal(*values, equal_nan=values[0].dtype.kind == "f")
        if not same:
            found[column.name] = tuple(list(value) if texts else value.tolist() for value in values)
    return found


def demand_equal(plan: Plan, again: Plan) -> None:
    assert plan.actions == again.actions
    assert plan.refusals == again.refusals
    assert plan.jobs.equals(again.jobs)
    assert differing(plan.promises, again.promises) == {}


UNLIKE = {"reason", "started_s", "ended_s", "node_gpus"}
"""Columns of jobs that may differ, and that no decision beside slurmctld reads: Slurm writes the reason when it next
looks at a job, which for a held one is the same to us, and estimates starts; it does not show GPUs by node."""

ALL = {"deadlines": DEADLINES, "profiling": PROFILING, "sharing": SHARING}
RULES = {
    "deadlines": ({"deadlines": DEADLINES}, {AskToStop, Hold, Rank, SetAdminComment}),
    "overdue stops": ({"deadlines": HURRIED}, {Requeue, Hold, Rank, SetAdminComment}),
    "profiling": ({"profiling": PROFILING}, {MovePartition, Requeue, MoveNodes, Rank}),
    "sharing": ({"sharing": SHARING}, {Share, Rank}),
    "all": (ALL, {AskToStop, Hold, MoveNodes, MovePartition, Rank, Requeue, SetAdminComment}),
    "all but holds": (
        {"powers": frozenset(POWERS) - {"hold"}, **ALL},
        {AskToStop, MoveNodes, MovePartition, Rank, Requeue, SetAdminComment, Share},
    ),
}


def test_a_simulation_that_goes_on_shows_what_the_lab_shows(recorded: Recorded) -> None:
    real, simulated = recorded.views()
    assert differing(real.running, simulated.running).keys() <= {"node_gpus"}
    assert differing(real.pending, simulated.pending).keys() <= UNLIKE
    for name in ("nodes", "partitions", "qos", "forecast", "forecast_running"):
        assert differing(getattr(real, name), getattr(simulated, name)) == {}, name


def test_the_points_of_a_job_that_we_hold_are_known_although_sprio_leaves_it_out(recorded: Recorded) -> None:
    for view in recorded.views():
        row = view.pending.row_of(recorded.jobs["held"])
        assert (view.pending.site_points[row], base_priority(view.pending)[row]) == (9, view.pending.priority[row] - 9)


@pytest.mark.parametrize("subject", RULES)
def test_with_every_power_in_use_it_decides_as_the_daemon_beside_it(recorded: Recorded, subject: str) -> None:
    parts, expected = RULES[subject]
    rules = Rules(**{"powers": frozenset(POWERS), "scope": "queue", "loans": recorded.loans, **parts})
    views, kinds = recorded.views(), set()
    for name in POLICIES:
        ordering = find_ordering(name)
        plan, again = (decide(view, ordering, rules) for view in views)
        demand_equal(plan, again)
        promised = [replace(view, promises=plan.promises) for view in views]
        later, later_again = (decide(view, ordering, rules) for view in promised)
        demand_equal(later, later_again)
        kinds |= {type(action) for action in (*plan.actions, *later.actions)}
    assert kinds >= expected, "there was something to decide"
    if "deadlines" in parts:
        jobs = recorded.jobs
        states = dict(zip(plan.promises.job_id.tolist(), plan.promises.state.tolist(), strict=True))
        answers = {
            jobs["strict"]: PromiseState.OPEN,
            jobs["soft"]: PromiseState.OPEN,
            jobs["never"]: PromiseState.REFUSED,
        }
        assert states == answers
