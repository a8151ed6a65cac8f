"""One state of a real Slurm, seen by its adapter and by a simulation that goes on from it, gives the same Plan."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from slurmsched.cluster.actions import Action, Share, StartShared, Unshare
from slurmsched.cluster.job_record import outcomes_of
from slurmsched.cluster.jobs import JobTable
from slurmsched.cluster.state import View
from slurmsched.db.memory import Memory
from slurmsched.decide.rules import Rules, SharingRules
from slurmsched.foresee.snapshot import resumed
from slurmsched.lab import Lab, LabSpec, wait_until
from slurmsched.models.runtime.baseline import RuntimeModel
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide
from slurmsched.simulator.volatile_store import VolatileStore
from slurmsched.slurm.adapters.command import SlurmCommand
from slurmsched.slurm.adapters.command_runner import CommandRunner

POLICIES = ("fifo", "sjf", "qssf", "srtf", "las")


def view_of(state, now_s: float) -> View:
    model = RuntimeModel.fit(outcomes_of(()))
    return View(
        now_s,
        state.pending,
        state.running,
        state.nodes,
        state.partitions,
        state.qos,
        model.forecast(state.pending, now_s),
        model.forecast(state.running, now_s),
    )


@pytest.fixture
def recorded(lab):
    """A busy lab as its adapter sees it: jobs that run, wait, are held, begin later, and an array.

    The state lasts: what runs does so for an hour, and no pending job fits into the one GPU that two nodes have left.
    """
    for gpus in (4, 4, 3, 3):
        lab.submit(f"--gres=gpu:{gpus}", "--time=60", "--output=/dev/null", "--wrap=sleep 3600", user="alice")
    cluster = SlurmCommand(CommandRunner(environment=lab.env(), prefix=tuple(lab.command([], user="operator"))))
    wait_until(lambda: len(cluster.observe().running) == 4, 120.0, "four jobs to run")
    for number, (gpus, minutes, more) in enumerate(
        (
            (4, 30, []),
            (2, 3, []),
            (4, 9, ["--nodes=2"]),
            (1, 45, ["--hold"]),
            (3, 7, ["--begin=now+1hour"]),
            (4, 2, ["--array=1-3"]),
            (2, 20, ["--nice=50"]),
            (4, 11, ["--comment=slurmsched:off"]),
        )
    ):
        options = (f"--gres=gpu:{gpus}", f"--time={minutes}", f"--job-name=train_{number}", "--output=/dev/null")
        lab.submit(*options, *more, "--wrap=sleep 60", user=("alice", "bob")[number % 2])
    state = wait_until(lambda: seen if len((seen := cluster.observe()).pending) == 8 else None, 120.0, "eight to wait")
    by_id = {
        name: (jobs := getattr(state, name)).take(np.argsort(jobs.job_id)) for name in ("pending", "running")
    }  # squeue(1) lists jobs in an order of its own
    return replace(state, **by_id), cluster.facts().config, time.time()


@pytest.mark.lab
def test_a_simulation_that_goes_on_from_a_lab_decides_as_the_daemon_beside_it(recorded):
    state, config, now_s = recorded
    rules = Rules(powers=frozenset({"order"}), scope="queue")
    real = view_of(state, now_s)
    simulated = view_of(resumed(real, config).observe(), now_s)
    for name in POLICIES:
        plan, again = (decide(view, find_ordering(name), rules) for view in (real, simulated))
        assert plan.actions == again.actions
        assert plan.refusals == again.refusals
        assert plan.jobs.equals(again.jobs)
        assert name == "fifo" or plan.actions, "there was something to decide"


@pytest.mark.lab
def test_the_simulation_sees_the_jobs_as_slurm_shows_them_and_ends_all_but_the_held_one(recorded):
    state, config, now_s = recorded
    cluster = resumed(view_of(state, now_s), config)
    again = cluster.observe()
    for name in ("job_id", "tasks", "gpus", "nodes", "priority", "site_points", "nice", "state"):
        expected = getattr(state.pending, name).tolist()
        assert getattr(again.pending, name).tolist() == pytest.approx(expected, nan_ok=True), name
    eligible = np.isfinite(state.pending.eligible_s)  # a held job is not
    assert (again.pending.eligible_s[eligible] == state.pending.eligible_s[eligible]).all()
    assert again.nodes.gpus_used.tolist() == state.nodes.gpus_used.tolist()
    assert again.nodes.cpus_used.tolist() == state.nodes.cpus_used.tolist()
    assert list(again.running.node_list) == list(state.running.node_list)
    cluster.advance(now_s + 1e6)
    assert list(cluster.observe().pending.reason) == ["JobHeldUser"]


def acted(cluster: SlurmCommand, memory: Memory, number: int, *actions: Action) -> None:
    """Send *actions* as a cycle does: the daemon knows later what it asked for."""
    now_s = time.time()
    memory.remember(cluster.observe(), now_s, acting=True)
    memory.intend(number, actions, now_s)
    answers = cluster.act(actions)
    assert [answer.refused for answer in answers] == [None] * len(actions)
    memory.answered(number, [(answer.action, answer.refused) for answer in answers], now_s)


def as_measured(jobs: JobTable) -> JobTable:
    """The jobs as ones that hardly use their GPUs."""
    use = {"gpu_util": 0.1, "memory_util": 0.05, "gpu_memory_mib": 3000.0, "measured": True, "share_score": 0}
    return replace(jobs, **{name: np.full(len(jobs), value) for name, value in use.items()})


@pytest.fixture
def sharing(lab_directory):
    """A lab on which two jobs share two GPUs, one has slots alone, one is half-way to slots, and others wait.

    The state lasts: what runs does so for an hour, and the one half-way does not start by itself for as long.
    """
    with Lab(lab_directory, LabSpec(nodes=2, shared_nodes=1, cpus=16)) as lab:
        lab_directory.chmod(0o755)
        cluster = SlurmCommand(CommandRunner(environment=lab.env(), prefix=tuple(lab.command([], user="operator"))))
        memory = Memory(VolatileStore.blank(), cluster=lab.cluster)

        def submit(gpus: int, *more: str) -> int:
            options = (f"--gres=gpu:{gpus}", "--time=60", "--output=/dev/null", *more)
            return lab.submit(*options, "--wrap=sleep 3600", user="alice")

        def running(*jobs: int) -> bool:
            return set(jobs) <= set(cluster.observe().running.job_id.tolist())

        blocker = submit(4)
        wait_until(lambda: running(blocker), 120.0, "the whole GPUs to be taken")
        pair, single, half_way = [submit(2), submit(2)], submit(1), submit(1)
        others = [submit(gpus, f"--time={minutes}") for gpus, minutes in ((1, 30), (1, 20), (2, 10), (4, 5))]
        wait_until(lambda: len(cluster.observe().pending) == 8, 120.0, "eight to wait")
        until_s = float(int(time.time()) + 3600)
        tokens = {pair[0]: "0+1", pair[1]: "0+1", single: "2", half_way: "2"}
        shares = [Share(job, "gpu", "shared", "n2", token, "", until_s) for job, token in tokens.items()]
        acted(cluster, memory, 1, *shares)
        started = [StartShared(job, tokens[job]) for job in (*pair, single)]
        acted(cluster, memory, 2, *started)
        wait_until(lambda: running(*pair, single), 120.0, "three to run on their slots")
        state = memory.remember(cluster.observe(), time.time(), acting=True).state
        assert len(state.pending) == 1 + len(others)
        tables = {name: as_measured(getattr(state, name)) for name in ("pending", "running")}
        by_id = {name: jobs.take(np.argsort(jobs.job_id)) for name, jobs in tables.items()}
        yield replace(state, **by_id), cluster.facts().config, time.time()


@pytest.mark.lab
def test_with_gpus_shared_it_decides_as_the_daemon_beside_it_too(sharing):
    state, config, now_s = sharing
    real = view_of(state, now_s)
    cluster = resumed(real, config)
    cluster.validate()
    simulated = view_of(cluster.observe(), now_s)
    assert simulated.nodes.gpus_used.tolist() == real.nodes.gpus_used.tolist()
    assert simulated.nodes.cpus_used.tolist() == real.nodes.cpus_used.tolist()
    sharing = SharingRules(memory_mib=20_000.0)
    rules = Rules(powers=frozenset({"order", "share"}), scope="queue", sharing=sharing)
    for name in POLICIES:
        plan, again = (decide(view, find_ordering(name), rules) for view in (real, simulated))
        assert plan.actions == again.actions
        assert plan.refusals == again.refusals
        assert plan.jobs.equals(again.jobs)
        assert {Share, Unshare} & {type(action) for action in plan.actions}, "there was something to decide"
