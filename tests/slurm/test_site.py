"""A whole cycle on a real Slurm with every kind of job: who is ordered, who is left alone, who keeps their say."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Self

import numpy as np
import pytest
import zoo

from slurmsched.clock import SystemClock
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.forecast import Forecast
from slurmsched.cluster.jobs import JobTable
from slurmsched.cluster.plan import Standing
from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.cycle import CycleContext, CycleReport, run_cycle
from slurmsched.db.memory import Memory
from slurmsched.db.store import Store
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import Rules
from slurmsched.explain.why import why
from slurmsched.lab import Lab
from slurmsched.policies.contract import find_ordering
from slurmsched.slurm.adapters.command import SlurmCommand
from slurmsched.slurm.adapters.command_runner import CommandRunner
from slurmsched.slurm.write.budget import Budget
from slurmsched.slurm.write.release import release_all
from slurmsched.slurm.write.writer import Writer

pytestmark = pytest.mark.lab

#: What the page docs/policies.md promises for each kind of job, and a word that `why` must say.
PROMISED = {
    "plain": (Standing.RANKED, "GPU"),
    "array": (Standing.RANKED, "5 tasks of an array"),
    "partitions": (Standing.RANKED, "GPU"),
    "ckpt": (Standing.RANKED, "GPU"),
    "gpus": (Standing.RANKED, "3 GPUs"),
    "per_node": (Standing.RANKED, "4 GPUs"),
    "per_task": (Standing.RANKED, "3 GPUs"),
    **dict.fromkeys(("cpus_per_gpu", "memory_per_gpu"), (Standing.RANKED, "2 GPUs")),
    "no_gpu": (Standing.RANKED, "core"),
    "no_requeue": (Standing.RANKED, "GPU"),
    "unlimited": (Standing.RANKED, "GPU"),
    "interactive": (Standing.RANKED, "GPU"),
    "dependent": (Standing.WAITS_FOR_DEPENDENCY, "singleton"),
    "dependency": (Standing.WAITS_FOR_DEPENDENCY, "has ended well"),
    "user_hold": (Standing.HELD_BY_USER, "scontrol release"),
    "admin_hold": (Standing.HELD_BY_ADMIN, "administrator"),
    "nice": (Standing.NICE_SET, "nice=0"),
    "begin": (Standing.WAITS_FOR_BEGIN, "begin time"),
    "reserved": (Standing.IN_RESERVATION, "workshop"),
    "limited": (Standing.LIMIT_BLOCKED, "to one user: it cannot start so"),
    "licence": (Standing.LIMIT_BLOCKED, "licence"),
    "down": (Standing.PARTITION_CLOSED, "night"),
    "off": (Standing.OWNER_SAID_OFF, "slurmsched:off"),
    "fixed": (Standing.PRIORITY_FIXED, "set by hand"),
    "het": (Standing.HETEROGENEOUS, "heterogeneous"),
}


class TimeLimits:
    """Forecasts every job's time limit, so that a test says what is short."""

    digest = "limits"

    def learn(self, ended: OutcomeTable) -> Self:
        return self

    def forecast(self, jobs: JobTable, now_s: float, running: JobTable | None = None) -> Forecast:
        limit_s = jobs.time_limit_s.copy()
        return Forecast(limit_s, limit_s.copy(), limit_s.copy(), Labels.of(["time limit"] * len(jobs)))


@pytest.fixture
def world() -> Iterator[Callable[..., CycleContext]]:
    """Makes worlds over a lab, by rules of the test's own; their databases are closed at its end."""
    with ExitStack() as stores:
        yield lambda lab, **rules: new_world(lab, stores.enter_context(closing(Store("sqlite://"))), **rules)


def new_world(lab: Lab, store: Store, **rules: object) -> CycleContext:
    operator = CommandRunner(environment=lab.env(), prefix=tuple(lab.command([], user="operator")))
    cluster = SlurmCommand(operator)
    store.upgrade()
    powers = frozenset({"order"})
    policy = Policy(find_ordering("sjf"), replace(Rules(powers=powers, max_points=0), **rules))
    return CycleContext(
        cluster=cluster,
        memory=Memory(store, cluster="site"),
        model=TimeLimits(),
        policy=policy.at_site(cluster.facts().config),
        writer=Writer(cluster, Budget(1000.0, 1000)),
        clock=SystemClock(),
    )


def act(here: CycleContext, number: int = 1) -> CycleReport:
    return run_cycle(here, number, time.time(), "act")


def place(report: CycleReport, job: int) -> int:
    row = report.view.pending.row_of(job)
    assert row is not None, f"job {job} is not pending"
    return row


def priorities(lab: Lab, *jobs: int) -> list[int]:
    listed = (line.split() for line in lab.ask(["squeue", "-h", "-t", "PENDING", "-o", "%A %Q"]).splitlines())
    by_job = {int(job): int(priority) for job, priority in listed}
    return [by_job[job] for job in jobs]


def points(lab: Lab) -> dict[int, set[int]]:
    """SITE of every job in sprio; a job in several partitions has several rows."""
    found: dict[int, set[int]] = {}
    for line in lab.ask(["sprio", "-h", "-o", "%i %S"]).splitlines():
        job, site = line.split()
        found.setdefault(int(job), set()).add(int(float(site)))
    return found


def test_every_kind_of_job_stands_as_promised_and_what_is_left_alone_gets_no_points(site, world):
    zoo.occupy(site)
    jobs = zoo.waiting_jobs(site)
    here = world(site, scope="queue")
    with zoo.interactive(site) as portal:
        jobs["interactive"] = portal

        def judged() -> bool:
            state = here.cluster.observe().pending
            rows = {kind: state.row_of(jobs[kind]) for kind in ("limited", "licence")}
            reasons = {kind: state.reason[row] for kind, row in rows.items() if row is not None}
            return reasons == {"limited": "QOSMaxGRESPerUser", "licence": "Licenses"}

        zoo.until(judged, "Slurm's reasons for the blocked jobs")
        zoo.until(lambda: portal in points(site), "its priority")
        report = act(here)
        placing = report.plan.jobs
        for kind, (standing, word) in PROMISED.items():
            row = place(report, jobs[kind])
            assert Standing(int(placing.standing[row])) == standing, (kind, report.view.pending.reason[row])
            assert word in " ".join(why(report.view, report.plan, Rules(), jobs[kind]).sentences), kind
        assert report.refused == 0
        assert report.actions["Rank"] > 0
        given = points(site)
        alone = [jobs[kind] for kind, (standing, _) in PROMISED.items() if standing != Standing.RANKED]
        assert all(given.get(job, {0}) == {0} for job in alone)
        wanted = {int(job): int(value) for job, value in zip(report.view.pending.job_id, placing.points, strict=True)}
        assert {job: given[job] for job in given} == {job: {wanted[job]} for job in given}
        assert len(given[jobs["partitions"]]) == 1, "points count in every partition of the job"
        assert priorities(site, jobs["fixed"]) == [77]
        second = act(here, 2)
        assert second.actions == {}
        assert "5" in str(second.view.pending.tasks[place(second, jobs["array"])]), "writing did not split the array"
        released = release_all(here.cluster, (), (), now_s=time.time())
        assert (released.refused, released.left) == ((), 0)
        assert all(site_points == {0} for site_points in points(site).values())


def test_an_admins_priority_wins_over_points_that_were_given_before(site, world):
    zoo.occupy(site)
    later = zoo.sleeper(site, "--time=2")
    first = zoo.sleeper(site, "--time=1")
    zoo.until(lambda: {first, later} <= set(points(site)), "priorities of both")
    here = world(site, scope="queue")
    act(here)
    assert priorities(site, first) > priorities(site, later)
    site.ask(["scontrol", "update", f"jobid={first}", "priority=123"])
    report = act(here, 2)
    assert report.plan.jobs.standing[place(report, first)] == Standing.PRIORITY_FIXED
    act(here, 3)
    assert priorities(site, first) == [123]


def test_with_points_qos_keeps_its_say_and_within_one_the_short_job_goes_first(site, world):
    zoo.occupy(site)
    high = zoo.sleeper(site, "--time=30", "--qos=high")
    low_long = zoo.sleeper(site, "--time=20", "--qos=low")
    low_short = zoo.sleeper(site, "--time=1", "--qos=low")
    zoo.until(lambda: {high, low_long, low_short} <= set(points(site)), "priorities of all")
    here = world(site)
    report = act(here)
    assert here.policy.rules.cap(report.view.qos) == 399, "the smallest step is 400"
    of_high, of_long, of_short = priorities(site, high, low_long, low_short)
    assert of_high > of_short > of_long
    act(world(site, scope="queue"))
    of_high, of_long, of_short = priorities(site, high, low_long, low_short)
    assert of_short > of_long > of_high


def test_a_partition_tier_stays_ahead_whatever_the_points(site, world):
    blockers = zoo.occupy(site)
    fast = zoo.sleeper(site, "--time=30", "--gres=gpu:4", "--partition=fast")
    short = zoo.sleeper(site, "--time=1", "--gres=gpu:4")
    zoo.until(lambda: {fast, short} <= set(points(site)), "priorities of both")
    report = act(world(site, scope="queue"))
    assert report.plan.jobs.rank[place(report, fast)] < report.plan.jobs.rank[place(report, short)]
    site.run(["scancel", str(blockers[0])])
    zoo.until(lambda: zoo.state(site, fast) == "RUNNING", "the fast partition served first")
    assert zoo.state(site, short) == "PENDING"


def test_names_up_to_sbatchs_own_limits_are_read_as_they_were_written(site, world):
    zoo.occupy(site)
    written: dict[int, str] = {}
    longest = max(length for length in (100, 1000, 1024, 2000, 4000, 8000) if accepts(site, length, written))
    assert longest >= 1000
    for name in zoo.HOSTILE_NAMES:
        written[zoo.sleeper(site, "-J", name)] = name
    comment = "x\n~mark~" * 50 + "slurmsched:ckpt"
    written[job := zoo.sleeper(site, "-J", "commented", f"--comment={comment}")] = "commented"
    state = world(site).cluster.observe()
    pending = state.pending
    read = {int(one): name for one, name in zip(pending.job_id, pending.name, strict=True) if int(one) in written}
    assert read == written
    row = int(np.flatnonzero(pending.job_id == job)[0])
    assert pending.comment[row] == comment
    assert pending.ckpt[row]


def accepts(lab: Lab, length: int, written: dict[int, str]) -> bool:
    """Whether sbatch takes a name so long; one that it takes is in *written* afterwards."""
    done = lab.run(["sbatch", "--parsable", "-J", "n" * length, "--gres=gpu:1", "--wrap=sleep 9"], user="alice")
    if done.returncode == 0:
        written[int(done.stdout)] = "n" * length
    return done.returncode == 0


def test_the_account_that_had_less_stays_ahead_unless_the_scope_is_wider(site, world):
    """Slurm tells the accounts apart once a minute: the last test here, for most of that to have gone by."""
    zoo.occupy(site)  # dave's: his account has had more than its share
    waiting = zoo.sleeper(site, "--time=30", user="alice")
    zoo.until(lambda: waiting in points(site), "its priority")
    served_long = zoo.sleeper(site, "--time=20", user="dave")
    served_short = zoo.sleeper(site, "--time=1", user="dave")
    zoo.until(
        lambda: (
            {waiting, served_long, served_short} <= set(points(site))
            and priorities(site, waiting)[0] > priorities(site, served_short)[0] + 5000
        ),
        "fair share telling the accounts apart",
        timeout_s=300,
    )
    report = act(world(site))
    of_waiting, of_long, of_short = priorities(site, waiting, served_long, served_short)
    assert of_waiting > of_short > of_long
    capped = report.plan.jobs.capped
    assert [bool(capped[place(report, job)]) for job in (waiting, served_short)] == [False, True]
    act(world(site, scope="queue"))
    of_waiting, of_long, of_short = priorities(site, waiting, served_long, served_short)
    assert of_short > of_long > of_waiting
