"""Which reservation keeps which job from a node now: Slurm answers by the start that it gives the job."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from slurmsched.cluster.columns import table_of
from slurmsched.cluster.nodes import NodeTable
from slurmsched.cluster.plan import Standing
from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.cluster.reservations import (
    Claimant,
    ReservationTable,
    closed_times,
    keeps_out,
    kept_nodes,
    windows_of,
)
from slurmsched.cluster.state import View
from slurmsched.daemon.predictions.hypothetical_job import new_job
from slurmsched.foresee.predict_completion import predict_completion
from slurmsched.lab import Lab, LabSpec
from slurmsched.lab.waiting import wait_until
from slurmsched.models.runtime.baseline import RuntimeModel
from slurmsched.slurm.adapters.command import SlurmCommand
from slurmsched.slurm.adapters.command_runner import CommandRunner

SOON, FAR = 30, 1440  #: minutes until the windows of most reservations, and those of some, begin
KINDS = {
    "n1": (("maint", "users=root", "flags=maint,ignore_jobs", SOON),),
    "n2": (("mine", "users=ALICE", "", SOON),),
    "n3": (("magnet", "users=ALICE", "flags=magnetic", 0),),
    "n4": (("flex", "users=ALICE", "flags=flex", SOON),),
    "n5": (("open", "users=ALICE", "", 0),),
    "n6": (("under", "users=ALICE", "flags=overlap", 0), ("over", "users=root", "flags=maint,overlap", SOON)),
    "n7": (("accounts", "accounts=astro", "flags=magnetic", 0),),
    "n8": (("dawn", "users=root", "flags=daily", FAR - 60),),
    "n9": (("part", "users=root corecnt=4", "", SOON),),
}  # fmt: skip
"""The reservations of each node: name, whose, flags, and the minutes until it begins; each lasts two hours."""

CONF = ("EnforcePartLimits=NO", "SchedulerParameters=bf_interval=2,bf_continue,sched_interval=2,batch_sched_delay=0")
MAGNETIC = ("n3", "n7")
"""Nodes on which a job may come to run in a reservation that it does not name, which ``--test-only`` does not try."""

ACCOUNTS = {"alice": "astro", "carol": "bio"}
LOOK_S = 8.0
"""Until Slurm's backfill has looked at a job, and given it a start if it has one."""

START = re.compile(r"to start at (\d+) ")


@dataclass
class Site:
    lab: Lab
    table: ReservationTable
    nodes: NodeTable
    now_s: float

    def starts_now(self, node: str, user: str, minutes: int, named: str, *, exclusive: bool) -> bool:
        """Tell whether Slurm would start such a job at once."""
        options = [*(["--exclusive"] if exclusive else []), *([f"--reservation={named}"] if named else [])]
        asked = ["sbatch", "--test-only", f"-w{node}", "-N1", f"-t{minutes}", *options, "--wrap=true"]
        answer = self.lab.run(["env", "SLURM_TIME_FORMAT=%s", *asked], user=user)
        found = START.search(answer.stderr)
        return found is not None and int(found[1]) < self.now_s + 300


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    if os.geteuid():
        pytest.skip("only root brings up accounting")
    directory = Path(tempfile.mkdtemp(prefix="sslab-", dir="/tmp"))
    directory.chmod(0o755)
    with Lab(directory / "lab", LabSpec(nodes=11, extra_conf=CONF)) as lab:
        for node, made in KINDS.items():
            for name, whose, flags, begins in made:
                when = f"starttime=now+{begins}minutes" if begins else "starttime=now"
                words = [*whose.replace("ALICE", lab.user("alice")).split(), *([flags] if flags else [])]
                asked = ["scontrol", "create", "reservation", f"reservationname={name}", when, "duration=120"]
                lab.ask([*asked, f"nodes={node}", *words])
        lab.ask(["scontrol", "create", "partition=other", "nodes=n11", "state=up"])
        elsewhere = ["reservationname=elsewhere", f"starttime=now+{FAR}minutes", "duration=120", "partition=other"]
        lab.ask(["scontrol", "create", "reservation", *elsewhere, f"users={lab.user('alice')}", "nodecnt=1"])
        command = SlurmCommand(CommandRunner(environment=lab.env()))
        seen = command.observe()
        assert command.observe().reservations is seen.reservations, "an equal answer is read once"
        yield Site(lab, seen.reservations, seen.nodes, time.time())


JOBS = st.builds(
    lambda node, user, minutes, own, exclusive: (node, user, minutes, own, exclusive),
    st.sampled_from([*(node for node in KINDS if node not in MAGNETIC), "n10"]),
    st.sampled_from(sorted(ACCOUNTS)),
    st.sampled_from([5, 20, 45, 100, 160, FAR, 3 * FAR]),
    st.booleans(),
    st.booleans(),
)


@pytest.mark.lab
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(job=JOBS)
@example(job=("n6", "alice", 45, True, False))
@example(job=("n9", "carol", 45, False, True))
@example(job=("n8", "carol", 3 * FAR, False, False))
def test_a_reservation_keeps_a_job_from_a_node_where_slurm_does_not_start_it(site, job):
    node, user, minutes, own, exclusive = job
    named = KINDS[node][0][0] if own and node in KINDS and user == "alice" and "root" not in KINDS[node][0][1] else ""
    who = Claimant(site.lab.user(user), ACCOUNTS[user], (named,) if named else ())
    from_s = time.time()
    until_s = from_s + 60.0 * minutes
    kept = [one for one in windows_of(site.table, node, from_s, until_s, who) if one.whole or exclusive]
    if named:
        row = list(site.table.name).index(named)
        inside = bool(site.table.has("FLEX")[row]) or float(site.table.start_s[row]) <= from_s
    else:
        inside = True
    assert site.starts_now(node, user, minutes, named, exclusive=exclusive) == (inside and not kept), kept


@pytest.mark.lab
def test_a_magnetic_reservation_lets_those_in_who_may_use_it(site):
    jobs = {
        (node, user, minutes): site.lab.submit(
            f"-w{node}", f"-t{minutes}", "-o/dev/null", "--wrap=sleep 600", user=user
        )
        for node, user, minutes in (
            ("n3", "alice", 45),
            ("n3", "carol", 45),
            ("n7", "alice", 45),
            ("n7", "carol", 45),
        )
    }
    from_s, expected = time.time(), {}
    for node, user, minutes in jobs:
        who = Claimant(site.lab.user(user), ACCOUNTS[user])
        kept = windows_of(site.table, node, from_s, from_s + 60.0 * minutes, who)
        expected[node, user, minutes] = "PENDING ReqNodeNotAvail" if kept else "RUNNING"

    def states() -> dict[tuple[str, str, int], str]:
        shown = site.lab.ask(["squeue", "-h", "-o", "%i %T %r"])
        found = dict(line.split(" ", 1) for line in shown.splitlines())
        return {key: found[str(job)] for key, job in jobs.items()}

    def settled() -> bool:
        return all(expected[key] in text and text != "PENDING None" for key, text in states().items())

    wait_until(settled, 60.0, f"a look of Slurm at each job: {expected}", every_s=0.5)


@pytest.mark.lab
def test_nodes_that_are_kept_are_those_with_a_window(site):
    who = Claimant(site.lab.user("carol"), "bio")
    kept = kept_nodes(site.table, site.nodes, site.now_s, site.now_s + 3_600.0, who)
    assert {name for name, one in zip(site.nodes.name, kept.tolist(), strict=True) if one} == {
        *("n1", "n2", "n3", "n4", "n5", "n6", "n7"),
    }
    alone = kept_nodes(site.table, site.nodes, site.now_s, site.now_s + 3_600.0, who, exclusive=True)
    assert (alone & ~kept).sum() == 1, "one of which a part is reserved"


def started(site: Site, jobs: Collection[int]) -> dict[int, str]:
    """The node of each of *jobs*, empty for one that waits, once Slurm has looked at all."""
    shown: dict[int, tuple[str, str]] = {}

    def looked_at() -> bool:
        for line in site.lab.ask(["squeue", "-h", "-o", "%A|%N|%r"]).splitlines():
            job, node, reason = line.split("|")
            shown[int(job)] = node, reason
        return all(node or reason != "None" for node, reason in (shown[job] for job in jobs))

    wait_until(looked_at, 60.0, "a look of Slurm at each job", every_s=0.5)
    return {job: shown[job][0] for job in jobs}


@pytest.mark.lab
def test_a_job_that_names_several_reservations_starts_in_the_first_that_lets_it(site):
    cases = ("mine,open", "open,mine", "mine,accounts", "accounts,open", "mine")
    jobs = {
        site.lab.submit("-N1", "-t20", "-o/dev/null", f"--reservation={named}", "--wrap=sleep 600", user="alice"): named
        for named in cases
    }
    may = {job: open_nodes_in(site, named) for job, named in jobs.items()}
    assert {named: len(may[job]) for job, named in jobs.items()} == {
        **dict.fromkeys(("mine,open", "open,mine"), 1),
        "mine,accounts": 1,
        "accounts,open": 2,
        "mine": 0,
    }
    nodes: dict[int, str] = {}

    def as_we_say() -> bool:
        nodes.update(started(site, jobs))
        return all(nodes[job] in may[job] or (nodes[job] == "" and not may[job]) for job in jobs)

    try:
        wait_until(as_we_say, 60.0, f"a start in {may}, not {nodes}", every_s=0.5)
    finally:
        site.lab.cancel_all()


def open_nodes_in(site: Site, named: str) -> set[str]:
    """The nodes on which a job of alice that names these reservations may start now, for 20 minutes."""
    who = Claimant(site.lab.user("alice"), ACCOUNTS["alice"], tuple(named.split(",")))
    now_s, open_ = time.time(), np.ones(len(site.nodes), dtype=np.bool_)
    for closed in closed_times(site.table, site.nodes, who, {}):
        shut = keeps_out(closed.how, closed.begin_s, closed.end_s, now_s, now_s + 1200.0)
        open_ &= ~(shut & (closed.gpus > 0))
    return {name for name, one in zip(site.nodes.name, open_.tolist(), strict=True) if one}


def start_of(site: Site, words: str) -> tuple[float, str]:
    """The start that Slurm gives to a job of alice, NaN for none, and its partitions; empty where it is refused."""
    done = site.lab.run(["sbatch", "--parsable", "-o/dev/null", *words.split(), "--wrap=sleep 600"], user="alice")
    if not done.stdout.strip().isdecimal():
        return np.nan, ""
    started(site, [int(done.stdout)])
    shown = ["env", "SLURM_TIME_FORMAT=%s", "squeue", "-h", "-j", done.stdout.strip(), "-o", "%S|%P"]

    def planned() -> list[str]:
        return site.lab.ask(shown).strip().split("|")

    until_s = time.monotonic() + LOOK_S
    while not planned()[0].isdecimal() and time.monotonic() < until_s:
        time.sleep(0.5)
    start, partition = planned()
    site.lab.cancel_all()
    return float(start) if start.isdecimal() else np.nan, partition


@pytest.mark.lab
@pytest.mark.parametrize("options", ["", "-pother"])
@pytest.mark.parametrize("named", ["mine", "flex", "open", "over", "elsewhere"])
def test_a_job_to_try_out_in_a_reservation_starts_when_slurm_would_start_it(site, named, options):
    user, words = site.lab.user("alice"), f"-N1 -t20 --reservation={named} {options}"
    cluster = SlurmCommand(CommandRunner(environment=site.lab.env()))
    state, facts, now_s = cluster.observe(), cluster.facts(), time.time()
    model = RuntimeModel.fit(table_of(OutcomeTable, 0, {}, {}))
    names = ("running", "nodes", "partitions", "qos", "accounts", "limits", "reservations", "topology")
    forecasts = {"forecast": model.forecast(state.pending, now_s)}
    forecasts["forecast_running"] = model.forecast(state.running, now_s)
    view = View(now_s=now_s, pending=state.pending, **{name: getattr(state, name) for name in names}, **forecasts)
    tried = new_job(view, facts.permissions, words, user)
    view = replace(view, pending=tried.job, forecast=model.forecast(tried.job, now_s))
    table = predict_completion(view, np.array([0]), np.array([Standing.RANKED]), facts.config)
    start_s, partition = start_of(site, words)
    assert bool(tried.not_understood) == (named == "over"), tried.not_understood
    if not partition:
        assert named == "over" or options
        assert np.isnan(table.start_s[0])
        return
    assert tried.job.partition[0] == partition
    begins_s = float(site.table.start_s[list(site.table.name).index(named)])
    if np.isnan(start_s) and begins_s > now_s:  # Slurm plans no start in a reservation before that begins
        start_s = begins_s if np.isfinite(table.start_s[0]) else np.nan
    assert float(table.start_s[0]) == pytest.approx(start_s, abs=90.0, nan_ok=True)
