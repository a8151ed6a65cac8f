"""Each reason that a lab can provoke, as ``why``, ``explain``, ``queue``, ``eta`` and ``story`` tell it."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from daemon.daemon_worlds import report

from slurmsched.cluster.columns import table_of
from slurmsched.cluster.plan import Plan, Standing
from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.cluster.records.predictions import PredictionTable, prediction_table
from slurmsched.cluster.state import View
from slurmsched.daemon.api.query_handlers import QueryHandlers
from slurmsched.daemon.api.questions.contract import Sources
from slurmsched.decide.rules import Rules
from slurmsched.errors import LabError
from slurmsched.explain.causes import cause_of
from slurmsched.explain.eta import LivePredictions
from slurmsched.explain.explain import explain, queue
from slurmsched.explain.story_words import sentence
from slurmsched.explain.why import Why, why
from slurmsched.lab import Lab, LabSpec
from slurmsched.lab.users import uid_of
from slurmsched.lab.waiting import wait_until
from slurmsched.models.runtime.baseline import RuntimeModel
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide
from slurmsched.slurm.adapters.command import SlurmCommand
from slurmsched.slurm.adapters.command_runner import CommandRunner

QOS = {
    "onejob": "maxjobsperuser=1",
    "fewgpus": "maxtresperuser=gres/gpu=2",
    "smalljob": "maxtresperjob=gres/gpu=1",
    "grpgpus": "grptres=gres/gpu=2",
    "grpjobs": "grpjobs=1",
    "bigjob": "mintresperjob=gres/gpu=4",
    "shortjob": "maxwall=10",
    "perhead": "maxjobsperaccount=1",
}
CONF = (
    "SchedulerParameters=bf_interval=2,bf_continue,sched_interval=2,batch_sched_delay=0",
    "AccountingStorageEnforce=associations,limits,qos",
    "EnforcePartLimits=NO",
    "Licenses=matlab:1",
    "PartitionName=gpu Nodes=n[1-2] Default=YES MaxTime=INFINITE DefaultTime=60 State=UP",
    "PartitionName=spare Nodes=n3 State=UP",
    "PartitionName=broken Nodes=n4 State=UP",
    "PartitionName=short Nodes=n[1-2] MaxTime=5 MaxNodes=1 State=UP",
    "PartitionName=night Nodes=n[1-2] State=DOWN",
    "PartitionName=serviced Nodes=n5 State=UP",
    "PartitionName=closing Nodes=n[1-2] State=UP",
)

RUNS = (
    ("onejob", "alice", "-q", "onejob"),
    ("fewgpus", "alice", "-q", "fewgpus", "--gres=gpu:2"),
    ("grpgpus", "bob", "-q", "grpgpus", "--gres=gpu:1"),
    ("grpjobs", "bob", "-q", "grpjobs"),
    ("perhead", "bob", "-q", "perhead"),
    ("licence", "alice", "-L", "matlab:1"),
    ("maxjobs", "dave"),
    ("account", "carol", "--gres=gpu:1"),
    ("single", "alice"),
)
"""Jobs that run and hold what others wait for: name, user, options."""

WAITS = (
    *(run for run in RUNS if run[0] not in ("account", "grpgpus", "fewgpus", "single")),
    ("fewgpus", "alice", "-q", "fewgpus", "--gres=gpu:1"),
    ("grpgpus", "alice", "-q", "grpgpus", "--gres=gpu:2"),
    ("account", "carol", "--gres=gpu:3"),
    ("smalljob", "alice", "-q", "smalljob", "--gres=gpu:2"),
    ("bigjob", "alice", "-q", "bigjob", "--gres=gpu:1"),
    ("shortjob", "alice", "-q", "shortjob"),
    ("array", "alice", "--array=0-5%1"),
    ("single", "alice", "-d", "singleton"),
    ("heldbyuser", "alice", "-H"),
    ("heldbyadmin", "bob", "--begin=now+3600"),
    ("begin", "alice", "--begin=now+3600"),
    ("down", "alice", "-p", "night"),
    ("inactive", "alice", "-p", "closing", "-H"),
    ("toolong", "alice", "-p", "short"),
    ("toowide", "alice", "-p", "short", "-N2", "-t3"),
    ("drained", "alice", "-p", "spare"),
    ("launch", "alice", "-p", "broken"),
    ("reserved", "alice", "--reservation=later"),
    ("maintenance", "alice", "-p", "serviced"),
    ("constraints", "alice", "-p", "serviced", "-t5", "-H"),
    ("requeued", "alice", "-p", "serviced", "-t5"),
    ("resources", "bob", "-q", "low", "-N2", "--exclusive", "-t50"),
    ("priority", "bob", "-q", "low", "-N2", "--exclusive", "-t50"),
)  # fmt: skip

SAID = {
    "onejob": ("QOSMaxJobsPerUserLimit", "QOS (onejob) allows 1 running job to one user at once; 1 runs.", "qos=NAME"),
    "fewgpus": ("QOSMaxGRESPerUser", "QOS (fewgpus) allows 2 GPUs to one user at once; 2 GPUs are", "qos=NAME"),
    "grpgpus": ("QOSGrpGRES", "QOS (grpgpus) allows 2 GPUs to all jobs together at once; 1 GPU is", "qos=NAME"),
    "grpjobs": ("QOSGrpJobsLimit", "Its QOS (grpjobs) allows 1 running job to all jobs together", "qos=NAME"),
    "perhead": ("MaxJobsPerAccount", "Its QOS (perhead) allows 1 running job to one account", "qos=NAME"),
    "licence": ("Licenses", "site has 1 licence of matlab at once; 1 licence of matlab is in use", "enough licences"),
    "maxjobs": ("AssocMaxJobsLimit", "allows 1 running job at once; 1 runs. Job", "account=NAME"),
    "account": ("AssocGrpGRES", "account (bio) allows 3 GPUs to all jobs together at once; 1 GPU is", "account=NAME"),
    "smalljob": ("QOSMaxGRESPerJob", "It asks for 2 GPUs, and its QOS (smalljob) allows 1 GPU for one job", "qos=NAME"),
    "bigjob": ("QOSMinGRES", "It asks for 1 GPU, and its QOS (bigjob) requires 4 GPUs at least", "qos=NAME"),
    "shortjob": ("QOSMaxWallDurationPerJobLimit", "asks for 60 min, and its QOS (shortjob) allows 10 min", "=00:10:00"),
    "array": ("JobArrayTaskLimit", "Its array allows 1 running task at once; 1 runs. Job", "arraytaskthrottle=N"),
    "single": ("Dependency", "an earlier job of its owner with the same name has ended (singleton)", "dependency="),
    "after": ("Dependency", "has ended well (it is held)", "dependency="),
    "never": ("DependencyNeverSatisfied", "that can no longer come true", "scancel"),
    "heldbyuser": ("JobHeldUser", "Its owner holds it.", "scontrol release"),
    "heldbyadmin": ("JobHeldAdmin", "An administrator holds it.", "Ask an administrator"),
    "begin": ("BeginTime", "Its begin time has not come: it comes in", "starttime=now"),
    "down": ("PartitionDown", "Its partition (night) is down", "partition=NAME"),
    "inactive": ("PartitionInactive", "Its partition (closing) is inactive", "partition=NAME"),
    "toolong": ("PartitionTimeLimit", "01:00:00 is longer than the 00:05:00 that partition short allows", "00:05:00"),
    "toowide": ("PartitionNodeLimit", "it asks for 2 nodes, and partition short allows 1", "numnodes=1"),
    "drained": ("", "n3 is drained", "returned it to service"),
    "launch": ("launch failed requeued held", "Its last start failed on the node", "scontrol release"),
    "reserved": ("Reservation", "It belongs to reservation later, which begins in", "reservationname="),
    "maintenance": ("ReqNodeNotAvail, Reserved for", "It asks for 60 min, and a maintenance", "timelimit=00:2"),
    "constraints": ("BadConstraints", "No nodes fit what it asks for", "Slurm then looks at it again"),
    "requeued": ("job requeued in held state", "put back into the queue under a hold", "scontrol release"),
    "resources": ("", "for its nodes in the order in force, and it waits until they have room", "Nothing"),
    "priority": ("Priority", "for the same nodes, asking for 2 cores, stands ahead", "Nothing"),
}  # fmt: skip
"""By job: Slurm's reason, words of the first line, words of the last."""

STANDINGS = {
    Standing.HELD_BY_USER: "held by its owner",
    Standing.HELD_BY_ADMIN: "held by an administrator",
    Standing.WAITS_FOR_DEPENDENCY: "waits for the jobs it depends on",
    Standing.WAITS_FOR_BEGIN: "begin time",
    Standing.LIMIT_BLOCKED: "blocked by a limit",
    Standing.IN_RESERVATION: "belongs to a reservation",
    Standing.PARTITION_CLOSED: "its partition, which takes no jobs",
    Standing.CANNOT_RUN: "cannot run, says Slurm",
    Standing.RANKED: "a place in our order",
}


class Queue:
    """A lab with a job for each reason."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.jobs: dict[str, int] = {}
        self.cluster = SlurmCommand(
            CommandRunner(environment=lab.env("operator"), prefix=tuple(lab.command([], user="operator")))
        )

    def admin(self, *argv: str) -> None:
        self.lab.run(list(argv))

    def submit(self, user: str, *options: str, wrap: str = "sleep 6000") -> int:
        return self.lab.submit("-o/dev/null", "-t60", *options, f"--wrap={wrap}", user=user)

    def limit(self) -> None:
        for name, limit in QOS.items():
            self.admin("sacctmgr", "-i", "add", "qos", name, "set", "priority=50", limit)
        for account in ("astro", "bio"):
            self.admin("sacctmgr", "-i", "modify", "account", account, "set", f"qos+={','.join(QOS)}")
        self.admin("sacctmgr", "-i", "modify", "account", "bio", "set", "grptres=gres/gpu=3")
        self.admin("sacctmgr", "-i", "modify", "user", self.lab.user("dave"), "set", "maxjobs=1")

    def fill(self) -> None:
        """Bring up all states."""
        running = [self.submit(user, f"-J{name}", *options) for name, user, *options in RUNS]
        failed = self.submit("alice", wrap="false")
        wait_until(lambda: self.states(*running) == {"RUNNING"}, 60.0, "the jobs that hold the limits", every_s=0.2)
        self.admin("scontrol", "update", "nodename=n3", "state=drain", "reason=bad fan")
        user = self.lab.user("alice")
        when = ("starttime=now+7200", "duration=60", "nodes=n2", f"users={user}", "flags=ignore_jobs")
        self.admin("scontrol", "create", "reservation", "reservationname=later", *when)
        service = ("starttime=now+1800", "duration=60", "nodes=n5", "users=root", "flags=maint")
        self.admin("scontrol", "create", "reservation", "reservationname=service", *service)
        self.jobs = {name: self.submit(user, f"-J{name}", *options) for name, user, *options in WAITS}
        constraints = self.jobs["constraints"]
        self.admin("scontrol", "update", f"jobid={constraints}", "minmemorynode=9999999")
        self.admin("scontrol", "release", str(constraints))
        wait_until(lambda: self.states(self.jobs["requeued"]) == {"RUNNING"}, 60.0, "a job to requeue", every_s=0.2)
        self.admin("scontrol", "requeuehold", str(self.jobs["requeued"]))
        self.jobs["after"] = self.submit("alice", "-d", f"afterok:{self.jobs['heldbyuser']}")
        wait_until(lambda: self.states(failed) == {"FAILED"}, 60.0, "a job that fails", every_s=0.2)
        self.jobs["never"] = self.submit("alice", "-d", f"afterok:{failed}")
        self.admin("scontrol", "hold", str(self.jobs["heldbyadmin"]))
        self.admin("scontrol", "update", "partitionname=closing", "state=inactive")
        self.admin("scontrol", "release", str(self.jobs["inactive"]))
        try:
            wait_until(lambda: not self.missing(), 90.0, "the reasons", every_s=0.5)
        except LabError as error:
            raise AssertionError(str(self.missing())) from error

    def states(self, *jobs: int) -> set[str]:
        shown = self.lab.ask(["squeue", "-h", "-t", "all", "-j", ",".join(map(str, jobs)), "-o", "%T"])
        return set(shown.split())

    def missing(self) -> dict[str, tuple[str, str]]:
        """The jobs whose reason is not yet the expected one, with it."""
        lines = self.lab.ask(["squeue", "-h", "-t", "PD", "-o", "%F|%r"]).splitlines()
        now = dict(line.split("|", 1) for line in lines)
        pairs = {name: (SAID[name][0], now.get(str(job), "not pending")) for name, job in self.jobs.items()}
        return {name: pair for name, pair in pairs.items() if pair[0] not in pair[1] or pair[1] == "not pending"}

    def seen(self) -> View:
        state, now_s = self.cluster.observe(), time.time()
        model = RuntimeModel.fit(table_of(OutcomeTable, 0, {}, {}))
        forecasts = (model.forecast(state.pending, now_s), model.forecast(state.running, now_s))
        tables = (state.pending, state.running, state.nodes, state.partitions, state.qos, *forecasts)
        return View(now_s, *tables, limits=state.limits, reservations=state.reservations)


@pytest.fixture(scope="module")
def filled() -> Iterator[Queue]:
    if os.geteuid():
        pytest.skip("only root brings up accounting")
    directory = Path(tempfile.mkdtemp(prefix="sslab-", dir="/tmp"))
    prolog = directory / "prolog"
    prolog.write_text('#!/bin/sh\n[ "$SLURM_JOB_PARTITION" != broken ]\n')
    prolog.chmod(0o755)
    directory.chmod(0o755)
    with Lab(directory / "lab", LabSpec(nodes=5, extra_conf=(*CONF, f"Prolog={prolog}"))) as lab:
        made = Queue(lab)
        made.limit()
        made.fill()
        yield made
    subprocess.run(["rm", "-r", str(directory)], check=False)


def handlers(seen: View, plan: Plan, rules: Rules) -> QueryHandlers:
    """The daemon's questions about this queue, with no predictions of times."""
    table: PredictionTable = prediction_table(
        len(seen.pending),
        **{
            name: getattr(seen.pending, name)
            for name in ("job_id", "first_submit_s", "user", "partition", "gpus", "tasks")
        },
        kind=np.full(len(seen.pending), 8),
        start_s=np.full(len(seen.pending), np.nan),
        finish_s=np.full(len(seen.pending), np.nan),
    )
    sources = Sources(
        lambda: {"mode": "observe"},  # type: ignore[arg-type, return-value]
        lambda view, plan, job, beside: why(view, plan, rules, job, beside),
        lambda view, plan, job, beside: explain(view, plan, rules, job, beside),
        queue,
        lambda job, since_s: (),
        order_off=lambda mode: "daemon.mode is observe",
        predictions=lambda: LivePredictions(table),
        cause=lambda view, plan, row: cause_of(view, plan, rules, row),
    )
    return QueryHandlers(sources, trusted=(0,))


@pytest.mark.lab
def test_every_reason_has_its_sentence_and_all_answers_agree(filled):
    seen, rules = filled.seen(), Rules()
    plan = decide(seen, find_ordering("fifo"), rules)
    asked = handlers(seen, plan, rules)
    asked.observe(report(now_s=seen.now_s, view=seen, plan=plan))
    rows = {row["job_id"]: row for row in asked.answer({"ask": "queue"}, 0)["queue"]}
    wrong: dict[str, Any] = {}
    for name, job in filled.jobs.items():
        reason, first, last = SAID[name]
        told = asked.answer({"ask": "why", "job_id": job}, 0)["why"]
        explained = asked.answer({"ask": "explain", "job_id": job}, 0)["explain"]
        eta = asked.answer({"ask": "eta", "job_ids": [job]}, 0)["eta"][0]
        agrees = (explained["reason"], explained["advice"]) == (told["reason"], told["advice"])
        agrees &= told["reason"] in explained["sentences"]
        agrees &= reason in told["slurm_reason"] and rows[job]["reason"] == told["slurm_reason"]
        if name not in ("resources", "priority"):
            agrees &= eta["notes"] == (told["reason"], told["advice"])
        standing = Standing[told["standing"].upper()]
        event = {"kind": "standing", "details": {"standing": standing.name}}
        agrees &= rows[job]["standing"] == told["standing"] and STANDINGS[standing] in sentence(event)
        if not (agrees and first in told["reason"] and last in told["advice"]):
            wrong[name] = (told, explained["reason"], eta["notes"], rows[job])
    assert not wrong


@pytest.mark.lab
def test_all_of_mine_are_explained_at_once_and_the_queue_can_be_narrowed(filled):
    seen, rules = filled.seen(), Rules()
    plan = decide(seen, find_ordering("fifo"), rules)
    asked = handlers(seen, plan, rules)
    asked.observe(report(now_s=seen.now_s, view=seen, plan=plan))
    user = filled.lab.user("bob")
    mine = asked.answer({"ask": "mine", "limit": 100}, uid_of(user))
    bobs = {job for job, owner in zip(seen.pending.job_id.tolist(), seen.pending.user, strict=True) if owner == user}
    assert {one["job_id"] for one in mine["mine"]} == bobs
    for filters, wanted in (
        ({"only_user": user}, bobs),
        ({"only_partition": "short"}, {filled.jobs["toolong"], filled.jobs["toowide"]}),
        ({"only_account": "bio", "only_user": filled.lab.user("carol")}, {filled.jobs["account"]}),
    ):
        rows = asked.answer({"ask": "queue"} | filters, 0)["queue"]
        assert {row["job_id"] for row in rows} == wanted


def told_of(filled: Queue, name: str) -> Why:
    seen = filled.seen()
    return why(seen, decide(seen, find_ordering("fifo"), Rules()), Rules(), filled.jobs[name])


@pytest.mark.lab
def test_who_holds_a_limit_is_who_holds_it(filled):
    """The jobs named are those that sacct and squeue show with the limit's QOS, account or licence."""
    seen = filled.seen()
    names = dict(zip(seen.running.job_id.tolist(), seen.running.name, strict=True))
    for name in ("onejob", "fewgpus", "grpgpus", "grpjobs", "licence", "maxjobs", "account"):
        blockers = told_of(filled, name).blockers
        assert {names[job] for job in blockers} >= {name}
        if name in ("onejob", "fewgpus", "licence"):
            assert len(blockers) == 1


@pytest.mark.lab
def test_who_may_lift_a_hold_is_who_is_told_to(filled):
    """Last, since it changes the queue: each owner tries what ``why`` tells him, and Slurm answers."""
    owners = {name: user for name, user, *_ in WAITS}
    for name in ("requeued", "launch", "heldbyuser", "heldbyadmin"):
        job, advice = filled.jobs[name], told_of(filled, name).advice
        tried = filled.lab.run(["scontrol", "release", str(job)], user=owners[name])
        by_owner = f"'scontrol release {job}'" in advice
        assert (tried.returncode == 0) == by_owner, (name, advice, tried.stderr)
    job = filled.jobs["constraints"]
    assert filled.lab.run(["scontrol", "update", f"jobid={job}", "timelimit=4"], user="alice").returncode == 0
    shown = filled.lab.ask(["squeue", "-h", "-j", str(job), "-o", "%Q"])
    assert int(shown) > 0, "Slurm looks at it again without a release"
