"""What the engine promises over many cycles, on a Slurm in memory."""

from __future__ import annotations

import numpy as np
import pytest

from slurmsched.clock import ManualClock
from slurmsched.cluster.actions import Action, Rank
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.forecast import Forecast
from slurmsched.cluster.jobs import JobState, JobTable
from slurmsched.cluster.state import View
from slurmsched.cycle import CycleContext, run_cycle
from slurmsched.db.memory import Memory
from slurmsched.db.store import Store
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import Rules
from slurmsched.models.runtime.baseline import RuntimeModel
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide
from slurmsched.slurm.adapters.fake import FakeSlurm
from slurmsched.slurm.write.budget import Budget
from slurmsched.slurm.write.writer import Writer

DAY_S, HOUR_S = 86400.0, 3600.0


class Refuses(FakeSlurm):
    """A cluster to which nothing may be written."""

    def act(self, actions):
        raise AssertionError(f"written in a mode that only looks: {actions}")


def world(cluster: FakeSlurm, **rules: object) -> CycleContext:
    store = Store("sqlite://")
    store.upgrade()
    policy = Policy(find_ordering("sjf"), Rules(**({"powers": frozenset({"order"}), "scope": "queue"} | rules)))
    return CycleContext(
        cluster=cluster,
        memory=Memory(store, cluster="fake"),
        model=RuntimeModel.fit(cluster.outcomes(0.0, 0.0)),
        policy=policy,
        writer=Writer(cluster, Budget(20.0, 100)),
        clock=ManualClock(),
    )


def churn(cluster: FakeSlurm, number: int) -> None:
    """A queue that never empties and never stays the same."""
    cluster.submit(60.0 + 37 * (number % 11), gpus=1 + number % 4, name=f"job{number % 5}", user=f"u{number % 3}")
    cluster.advance(15.0)
    for job in list(cluster.jobs.values()):
        if job.state.ended and job.ended_s < cluster.now_s - 300:
            del cluster.jobs[job.job_id]


@pytest.mark.parametrize(
    ("mode", "powers", "cycles"),
    [
        ("observe", {"order", "hold", "requeue"}, 20),
        ("advise", {"order"}, 20),
        pytest.param("observe", {"order", "hold", "requeue"}, 1000, marks=pytest.mark.soak),
    ],
)
def test_a_mode_that_only_looks_writes_nothing_in_many_cycles(mode, powers, cycles):
    cluster = Refuses(nodes=1)
    here = world(cluster, powers=frozenset(powers))
    wanted = 0
    for number in range(1, cycles + 1):
        churn(cluster, number)
        wanted += len(run_cycle(here, number, cluster.now_s, mode).plan.actions)
    assert wanted > 0, "there was something to write"


def test_with_no_power_on_act_writes_nothing_either():
    cluster = Refuses(nodes=1)
    here = world(cluster, powers=frozenset())
    refused = 0
    for number in range(1, 21):
        churn(cluster, number)
        refused += len(run_cycle(here, number, cluster.now_s, "act").plan.refusals)
    assert refused > 0


def test_a_queue_that_stays_the_same_costs_no_write():
    cluster = FakeSlurm(nodes=1)
    here = world(cluster)
    for number in range(40):
        cluster.submit(1e7, gpus=1 + number % 4, name=f"job{number % 5}", time_limit_s=600.0 * (1 + number % 7))
    cluster.advance(1.0)
    first = run_cycle(here, 1, cluster.now_s, "act")
    assert first.actions["Rank"] > 0
    assert run_cycle(here, 2, cluster.now_s + 15, "act").actions == {}
    written = len(cluster.written)
    cluster.submit(1e7, time_limit_s=601.0)
    third = run_cycle(here, 3, cluster.now_s + 30, "act")
    assert third.actions == {"Rank": 1}, "one new job costs one write"
    assert len(cluster.written) == written + 1


def test_a_cold_start_spreads_its_writes():
    cluster = FakeSlurm(nodes=1)
    here = world(cluster)
    for number in range(400):
        cluster.submit(1e7, gpus=4, time_limit_s=60.0 + number)
    cluster.advance(1.0)
    sent, deferred = [], []
    for number in range(1, 30):
        here.clock.now_s = cluster.now_s + 2.0 * number
        report = run_cycle(here, number, here.clock.now_s, "act")
        sent.append(report.actions.get("Rank", 0))
        deferred.append(report.deferred)
    assert sent[0] == 100
    assert max(sent[1:]) <= 40
    assert deferred[-1] == 0
    assert sent[-1] == 0


def test_a_later_opt_out_gives_the_points_back():
    cluster = FakeSlurm(nodes=1)
    here = world(cluster)
    for limit_s in (900.0, 600.0, 300.0):
        cluster.submit(1e7, gpus=4, time_limit_s=limit_s, comment="slurmsched:off" if limit_s == 900 else "")
    last = cluster.submit(1e7, gpus=4, time_limit_s=60.0)
    cluster.advance(1.0)
    run_cycle(here, 1, cluster.now_s, "act")
    assert cluster.jobs[last].points > 0
    cluster.jobs[last] = cluster.jobs[last].__class__(**(vars(cluster.jobs[last]) | {"comment": "slurmsched:off"}))
    assert Rank(last, 0) in run_cycle(here, 2, cluster.now_s, "act").plan.actions
    assert cluster.jobs[last].points == 0


def look(cluster: FakeSlurm) -> View:
    """The cluster with the true runtimes as forecasts."""
    state = cluster.observe()

    def true(jobs: JobTable) -> Forecast:
        runtime_s = np.array([cluster.jobs[job].runtime_s for job in jobs.job_id.tolist()], dtype=np.float64)
        return Forecast(runtime_s, runtime_s, runtime_s, Labels.of(["truth"] * len(jobs)))

    tables = (state.pending, state.running, state.nodes, state.partitions, state.qos)
    return View(cluster.now_s, *tables, true(state.pending), true(state.running))


@pytest.mark.parametrize(("load", "starvation_s"), [(1.0, 2 * HOUR_S), (1.1, 2 * DAY_S)], ids=["busy", "too much"])
@pytest.mark.parametrize("days", [14, pytest.param(30, marks=pytest.mark.soak)])
def test_short_jobs_without_end_never_starve_a_long_one(days, load, starvation_s):
    """Days of an adversary who always has a shorter job, on one GPU with a cycle every hour."""
    cluster = FakeSlurm(nodes=1, gpus_per_node=1)
    rules = Rules(powers=frozenset({"order"}), scope="queue", starvation_s=starvation_s)
    bound_s: dict[int, float] = {}  # latest start, known from the moment the job starves
    longest_s, owed = 0.0, 0.0
    for hour in range(days * 24):
        if hour % 40 == 0:
            cluster.submit(5 * HOUR_S)
        owed += load - 5 / 40
        while owed >= 0.5:
            cluster.submit(0.5 * HOUR_S)
            owed -= 0.5
        seen = look(cluster)
        plan = decide(seen, find_ordering("sjf"), rules)
        waiting, ranked = seen.pending, plan.jobs.rank
        assert starving_stand_only_behind_longer_waits(waiting, plan.jobs.starving, ranked)
        running_s = sum(job.left_s for job in cluster.jobs.values() if job.state == JobState.RUNNING)
        for row in np.flatnonzero(plan.jobs.starving).tolist():
            ahead_s = float(seen.forecast.runtime_s[ranked < ranked[row]].sum())
            bound_s.setdefault(int(waiting.job_id[row]), cluster.now_s + running_s + ahead_s)
        actions: list[Action] = list(plan.actions)
        assert all(answer.refused is None for answer in cluster.act(actions))
        cluster.advance(HOUR_S)
        for job in list(cluster.jobs.values()):
            if job.state != JobState.PENDING:
                longest_s = max(longest_s, job.started_s - job.submitted_s)
                assert job.started_s <= bound_s.get(job.job_id, np.inf) + 1e-6
            if job.state.ended:
                del cluster.jobs[job.job_id]
        late = [job for job in cluster.jobs.values() if bound_s.get(job.job_id, np.inf) < cluster.now_s - 1e-6]
        assert not [job for job in late if job.state == JobState.PENDING]
    assert bound_s, "the adversary was strong enough to starve somebody"
    if load <= 1:
        assert longest_s < starvation_s + 12 * HOUR_S


def starving_stand_only_behind_longer_waits(waiting: JobTable, starving, rank) -> bool:
    by_rank = np.argsort(rank)
    since, kind = waiting.eligible_s[by_rank], starving[by_rank]
    count = int(kind.sum())
    return bool(kind[:count].all() and (np.diff(since[:count]) >= 0).all())
