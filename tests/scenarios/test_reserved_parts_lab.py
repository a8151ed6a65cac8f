"""Jobs inside a reservation of parts of nodes, and those outside beside them: Slurm answers by the starts it plans."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from slurmsched.cluster.columns import table_of
from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.cluster.state import View
from slurmsched.decide.rules import Rules
from slurmsched.explain.why import why
from slurmsched.foresee.predict_completion import predict_completion
from slurmsched.lab import Lab, LabSpec
from slurmsched.lab.programs import slurm_release
from slurmsched.lab.waiting import wait_until
from slurmsched.models.runtime.baseline import RuntimeModel
from slurmsched.policies.contract import PLACEMENTS, find_ordering
from slurmsched.policies.selection.built_in import start_in_order
from slurmsched.policies.selection.free_nodes import FreeNodes
from slurmsched.powers import decide
from slurmsched.slurm.adapters.command import SlurmCommand
from slurmsched.slurm.adapters.command_runner import CommandRunner

CONF = (
    "EnforcePartLimits=NO",
    "SchedulerParameters=bf_interval=2,bf_resolution=1,bf_continue,sched_interval=2,batch_sched_delay=0",
)
CPUS, HALF = 8, 4  #: of each node, and of those that are reserved
GPUS, CARDS = 4, 2
LOOK_S = 6.0
"""Until Slurm's backfill has looked at a job, and given it a start if it has one."""

NEAR_S = 90.0
"""Slurm counts limits in whole minutes, and looks at jobs every two seconds."""


@dataclass
class Site:
    lab: Lab
    release: tuple[int, ...]

    @property
    def gpus(self) -> bool:
        """Whether GPUs are reserved too, which releases can from 23.11 on."""
        return self.release >= (23, 11)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    if os.geteuid():
        pytest.skip("only root brings up accounting")
    directory = Path(tempfile.mkdtemp(prefix="sslab-", dir="/tmp"))
    directory.chmod(0o755)
    with Lab(directory / "lab", LabSpec(nodes=3, gpus=GPUS, extra_conf=CONF)) as lab:
        site = Site(lab, slurm_release(None))
        reserve(lab, "half", "n1", f"corecnt={HALF}")
        cards = [f"corecnt={HALF}", *([f"tres=gres/gpu={CARDS}"] if site.gpus else [])]
        reserve(lab, "cards", "n2", *cards)
        yield site


def reserve(lab: Lab, name: str, node: str, *words: str, minutes: int = 120) -> None:
    """Reserve a part of a node for alice, from now on."""
    asked = [f"reservationname={name}", "starttime=now", f"nodes={node}", f"users={lab.user('alice')}"]
    asked.append(f"duration={minutes}")
    lab.ask(["scontrol", "create", "reservation", *asked, *words])


NODES = {"half": "n1", "cards": "n2"}
Job = tuple[str, bool, int, int, int]
JOBS = st.lists(
    st.tuples(
        st.sampled_from(sorted(NODES)),
        st.booleans(),  # inside
        st.integers(1, HALF + 1),
        st.integers(0, 3),
        st.sampled_from([5, 10, 20, 40]),
    ),
    min_size=1,
    max_size=7,
)


def submit(site: Site, name: str, inside: bool, cpus: int, gpus: int, minutes: int, *options: str) -> int:
    """Submit a job to a node of which a part is reserved, to that part or beside it."""
    where = [f"--reservation={name}"] if inside else [f"-w{NODES[name]}"]
    size = ["-N1", "-n1", f"-c{cpus}", "--mem=100", f"-t{minutes}", *([f"--gres=gpu:{gpus}"] if gpus else [])]
    words = [*where, *size, *options, "-o/dev/null", "--wrap=sleep 3000"]
    return site.lab.submit(*words, user="alice" if inside else "carol")


def planned(site: Site) -> dict[int, tuple[str, float]]:
    """The state of each job, and the start that Slurm gives it; NaN for none."""
    shown = site.lab.ask(["env", "SLURM_TIME_FORMAT=%s", "squeue", "-h", "-o", "%A|%t|%S|%r"])
    rows = (line.split("|") for line in shown.splitlines())
    return {int(job): (state, float(start) if start.isdecimal() else np.nan) for job, state, start, _ in rows}


def settled(site: Site) -> dict[int, tuple[str, float]]:
    """What Slurm plans once it plans the same for a while."""
    before, until_s = planned(site), time.monotonic() + LOOK_S
    while time.monotonic() < until_s:
        time.sleep(1.0)
        now = planned(site)
        if {job: one[0] for job, one in now.items()} != {job: one[0] for job, one in before.items()}:
            until_s = time.monotonic() + LOOK_S
        before = now
    return before


def view_of(cluster: SlurmCommand) -> View:
    """The present view, without history."""
    state, now_s = cluster.observe(), time.time()
    model = RuntimeModel.fit(table_of(OutcomeTable, 0, {}, {}))
    names = ("running", "nodes", "partitions", "qos", "accounts", "limits", "reservations", "topology")
    forecasts = {"forecast": model.forecast(state.pending, now_s)}
    forecasts["forecast_running"] = model.forecast(state.running, now_s)
    return View(now_s=now_s, pending=state.pending, **{name: getattr(state, name) for name in names}, **forecasts)


def behind_another(job_id: int, theirs: dict[int, tuple[str, float]], of: dict[int, Job]) -> bool:
    """Whether Slurm plans a start of another waiting job on the same node before that of this one, if it plans one."""
    start_s = theirs[job_id][1]
    others = [at_s for other, (state, at_s) in theirs.items() if state == "PD" and of[other][0] == of[job_id][0]]
    return any(at_s < start_s or (np.isnan(start_s) and not np.isnan(at_s)) for at_s in others)


def is_unplanned(site: Site, job: Job) -> bool:
    """Whether Slurm may plan no start of a job outside a reservation of GPUs that asks for some of its node (24.11).

    It plans none where the job asks for more than the reservation leaves, and none of some others beside jobs that wait
    for other nodes. It starts such jobs when the reservation ends all the same, which a test shows.
    """
    name, inside, _, gpus, _ = job
    return name == "cards" and not inside and gpus > 0 and (24, 11) <= site.release < (25, 5)


def is_near(ours_s: float, theirs_s: float, *, behind: bool) -> bool:
    """Whether a start is the one that Slurm plans.

    One that Slurm plans *behind* another may be earlier: Slurm keeps the whole node for a job that it plans, and a part
    of it once that job runs. 24.11 plans no start there of a job with GPUs.
    """
    near = np.isclose(ours_s, theirs_s, rtol=0, atol=NEAR_S, equal_nan=True)
    return bool(near or (behind and (ours_s < theirs_s or (np.isnan(theirs_s) and not np.isnan(ours_s)))))


def differences(site: Site, jobs: list[Job]) -> list[str]:
    """Submit *jobs*, and return what we predict otherwise than Slurm plans."""
    cluster = SlurmCommand(CommandRunner(environment=site.lab.env()))
    facts, of = cluster.facts(), {}
    try:
        for job in jobs:
            of[submit(site, *job)] = job
        theirs, seen = settled(site), view_of(cluster)
        plan = decide(seen, find_ordering("fifo"), Rules())
        table = predict_completion(seen, plan.jobs.rank, plan.jobs.standing, facts.config)
        ours = dict(zip(table.job_id.tolist(), table.start_s.tolist(), strict=True))
        found = []
        for job_id, (state, start_s) in theirs.items():
            told = why(seen, plan, Rules(), job_id)
            print(of[job_id], state, start_s - seen.now_s, ours[job_id] - seen.now_s, told.reason)
            if np.isnan(start_s) and is_unplanned(site, of[job_id]) and not np.isnan(ours[job_id]):
                continue
            if state == "PD" and not is_near(ours[job_id], start_s, behind=behind_another(job_id, theirs, of)):
                found.append(f"{of[job_id]}: Slurm {start_s - seen.now_s:.0f} s, we {ours[job_id] - seen.now_s:.0f} s")
        return [*found, f"of {list(of.values())}"] if found else []
    finally:
        site.lab.cancel_all()


@pytest.mark.lab
@settings(max_examples=1, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(jobs=JOBS)
@example(jobs=[("half", True, 2, 0, 20), ("half", True, 2, 0, 40), ("half", True, 1, 0, 10), ("half", False, 5, 0, 5)])
@example(
    jobs=[("cards", True, 1, 2, 20), ("cards", True, 1, 1, 5), ("cards", False, 4, 2, 10), ("half", True, 5, 0, 5)]
)
def test_jobs_inside_a_part_of_a_node_and_beside_it_start_when_slurm_plans_it(site, jobs):
    assert not differences(site, jobs)


@pytest.mark.lab
@pytest.mark.soak
@pytest.mark.draws
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(jobs=JOBS)
def test_many_jobs_inside_parts_of_nodes_start_when_slurm_plans_it(site, jobs):
    assert not differences(site, jobs)


@pytest.mark.lab
@pytest.mark.soak
@pytest.mark.releases
def test_a_job_for_more_gpus_than_a_reservation_leaves_starts_when_that_ends_whether_planned_or_not(site):
    if not site.gpus:
        pytest.skip("GPUs are reserved from 23.11 on")
    cluster = SlurmCommand(CommandRunner(environment=site.lab.env()))
    try:
        reserve(site.lab, "soon", "n3", "corecnt=1", f"tres=gres/gpu={CARDS}", minutes=1)
        words = ["-N1", "-wn3", "--mem=100", "-t5", f"--gres=gpu:{GPUS - CARDS + 1}", "-o/dev/null"]
        job = site.lab.submit(*words, "--wrap=sleep 3000", user="carol")
        settled(site)
        seen = view_of(cluster)
        plan = decide(seen, find_ordering("fifo"), Rules())
        table = predict_completion(seen, plan.jobs.rank, plan.jobs.standing, cluster.facts().config)
        ours_s = float(table.start_s[table.job_id.tolist().index(job)])
        wait_until(lambda: planned(site)[job][0] == "R", 120.0, "the job runs", every_s=1.0)
        assert abs(ours_s - planned(site)[job][1]) < NEAR_S / 3
    finally:
        site.lab.cancel_all()


def chosen(site: Site) -> dict[int, str]:
    """The waiting jobs that the nodes of a decision have room for in turn, with the node of each."""
    seen = view_of(SlurmCommand(CommandRunner(environment=site.lab.env())))
    nodes = FreeNodes(seen, PLACEMENTS.find("consolidate"))
    start_in_order(np.arange(len(seen.running), nodes.count), nodes, strict=False)
    starts = nodes.run_set()
    return dict(zip(seen.pending.job_id[starts.rows].tolist(), [on[0][0] for on in starts.nodes], strict=True))


def running(site: Site) -> dict[int, str]:
    """The jobs that run, with their nodes."""
    shown = site.lab.ask(["squeue", "-h", "-t", "R", "-o", "%A %N"])
    return {int(job): on for job, on in (line.split() for line in shown.splitlines())}


def started_otherwise(site: Site, jobs: list[Job]) -> list[str]:
    """Hold *jobs*, let go those with room, then the others; return what Slurm starts otherwise."""
    try:
        of = {submit(site, *job, "-H"): job for job in jobs}
        ours = chosen(site)
        if ours:
            site.lab.ask(["scontrol", "release", ",".join(map(str, ours))])
            settled(site)
        more = chosen(site)
        if left := sorted(set(of) - set(ours)):
            site.lab.ask(["scontrol", "release", ",".join(map(str, left))])
            settled(site)
        theirs = running(site)
        print(of, ours, more, theirs)
        found = [f"{of[job]}: {ours.get(job)}, {theirs.get(job)}" for job in of if ours.get(job) != theirs.get(job)]
        return found + [f"{of[job]}: also {on}" for job, on in more.items()]
    finally:
        site.lab.cancel_all()


@pytest.mark.lab
@settings(max_examples=1, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(jobs=JOBS)
@example(jobs=[("half", True, 3, 0, 20), ("half", True, 3, 0, 40), ("half", True, 1, 0, 10), ("half", False, 5, 0, 5)])
@example(
    jobs=[("half", False, 4, 0, 20), ("half", False, 1, 0, 20), ("cards", True, 4, 2, 5), ("cards", True, 1, 1, 5)]
)
def test_just_the_jobs_that_a_decision_has_room_for_in_a_part_of_a_node_start_there(site, jobs):
    assert not started_otherwise(site, jobs)


@pytest.mark.lab
@pytest.mark.soak
@pytest.mark.draws
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(jobs=JOBS)
def test_of_many_jobs_just_those_that_a_decision_has_room_for_in_parts_of_nodes_start_there(site, jobs):
    assert not started_otherwise(site, jobs)
