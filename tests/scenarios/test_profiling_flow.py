"""New jobs are measured first on a real Slurm: job_submit.lua lets them in, the daemon moves them on, or is dead."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_site import Site

from slurmsched.clock import SystemClock
from slurmsched.cluster.actions import MoveNodes
from slurmsched.cluster.job_record import EndedRun, JobRecord, outcomes_of
from slurmsched.cluster.jobs import JobState
from slurmsched.cluster.records.node_loans import members
from slurmsched.cluster.records.profiles import NodeProfile
from slurmsched.cycle import CycleContext, CycleReport, run_cycle
from slurmsched.daemon.release import give_nodes_back
from slurmsched.db.memory import Memory
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import ProfilingRules, Rules
from slurmsched.errors import LabError
from slurmsched.lab import Lab, LabSpec, programs
from slurmsched.models.runtime.baseline import RuntimeModel
from slurmsched.policies.contract import find_ordering
from slurmsched.slurm.adapters.command import SlurmCommand
from slurmsched.slurm.adapters.command_runner import CommandRunner
from slurmsched.slurm.write.budget import Budget
from slurmsched.slurm.write.verbs import lines
from slurmsched.slurm.write.writer import Writer

T_PROF_S = 4
SCRIPT = Path(__file__).parents[2] / "contrib/slurm.conf.d/job_submit.lua"
CONF = (
    "PartitionName=gpu Nodes=n[1-2] Default=YES MaxTime=INFINITE State=UP",
    "PartitionName=profile Nodes=n3 MaxTime=INFINITE PriorityTier=2 State=UP",
)
ONCE_MORE = '[ "$SLURM_RESTART_COUNT" ] || sleep 3000'

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def profiling_lab() -> Iterator[Lab]:
    """Two nodes in the partition gpu, one in the partition profile, and our job_submit.lua told of it."""
    if os.geteuid() != 0:
        pytest.skip("a daemon under another user needs root")
    with tempfile.TemporaryDirectory(prefix="sslab-", dir="/tmp") as directory:
        Path(directory).chmod(0o755)
        script = Path(directory, "job_submit.lua")
        script.write_text(SCRIPT.read_text().replace('PROFILE_PARTITION = ""', 'PROFILE_PARTITION = "profile"'))
        spec = LabSpec(nodes=3, job_submit_lua=str(script), extra_conf=CONF)
        try:
            programs.check(spec)
        except LabError as error:
            pytest.skip(str(error))
        with Lab(Path(directory, "lab"), spec) as lab:
            yield lab


@pytest.fixture
def site(profiling_lab) -> Iterator[Site]:
    made = Site.of(
        profiling_lab,
        power="order = true\nrequeue = true\npartition = true\nprofile = true",
        profile=f"t_s = {T_PROF_S}\nt_least_s = {T_PROF_S}\nwait_s = 3600\nn_max = 4\nn_least = 4",
    )
    yield made
    shutil.rmtree(made.directory)
    profiling_lab.cancel_all()


def submit(site: Site, name: str, gpus: int, script: str, comment: str = "") -> int:
    return site.lab.submit(
        f"--gres=gpu:{gpus}", "-n1", "-t60", "--requeue", "-o/dev/null", f"-J{name}", f"--comment={comment}",
        f"--wrap={script}", user="alice",
    )  # fmt: skip


def until_told(site: Site, name: str) -> str:
    """What a job runs that ends when a test makes the file *name*."""
    return f"until [ -e {site.lab.layout.work}/{name} ]; do sleep 0.2; done"


def tell(site: Site, name: str) -> None:
    """Let the jobs end that wait for *name*."""
    (site.lab.layout.work / name).touch()


def where(site: Site, job: int) -> tuple[str, str]:
    """The partitions and the state of *job*."""
    partition, state = site.lab.ask(["squeue", "-h", "-t", "all", "-j", str(job), "-o", "%P %T"]).split()
    return partition, state


def until(site: Site, job: int, *expected: tuple[str, str]) -> None:
    site.until(lambda: where(site, job) in expected, f"job {job} in {expected}", 120.0)


def why(site: Site, job: int) -> str:
    return site.run("why", str(job), "--details").stdout


def fill_main(site: Site) -> list[int]:
    """Jobs that take all of the partition gpu, in which they came and stay."""
    jobs = [submit(site, "blocker", 4, "sleep 3000", "slurmsched:noprofile") for _ in range(2)]
    for job in jobs:
        until(site, job, ("gpu", "RUNNING"))
    return jobs


def teach_kind(site: Site, name: str) -> None:
    """Let a job of this name have been measured an hour ago."""
    at_s = int(time.time()) - 3600
    job = JobRecord(
        *(
            77,
            0,
            -1,
            1,
            name,
            site.lab.user("alice"),
            "astro",
            "normal",
            "gpu",
            1,
            1,
            1,
            60.0,
            at_s,
            at_s,
            at_s,
            0,
            at_s,
        )
    )
    profile = NodeProfile(77, 0, "n1", at_s, at_s + 50, 1, 50.0, 1.0, 0.4, 0.0, 0.2, 4096.0, 100.0, 0.0)
    with site.store() as store:
        store.add_outcomes(site.lab.cluster, outcomes_of([EndedRun(job, at_s + 50.0, JobState.COMPLETED)]))
        store.add_profiles(site.lab.cluster, [profile])


def test_new_jobs_are_measured_first_and_none_is_lost_when_the_daemon_dies_at_the_limit(site):
    known, fresh = "model_7", [f"{name}_kind" for name in ("short", "saving", "plain", "waiting")]
    teach_kind(site, known)
    blockers = fill_main(site)
    with site.daemon() as daemon:
        short = submit(site, fresh[0], 1, until_told(site, "short"))
        plain = submit(site, fresh[2], 3, until_told(site, "go"))
        for job in (short, plain):
            until(site, job, ("profile", "RUNNING"))
        measured = submit(site, "model_8", 1, "true")
        until(site, measured, ("gpu", "PENDING"))
        saving = submit(site, fresh[1], 1, ONCE_MORE, "slurmsched:ckpt")
        site.until(lambda: "may also start in profile" in why(site, saving), "a daemon that sees it wait")
        tell(site, "short")
        until(site, short, ("profile", "COMPLETED"))
        until(site, saving, ("profile", "RUNNING"))  # for as long as nobody waits for its GPU
        waiting = submit(site, fresh[3], 1, until_told(site, "go"), "slurmsched:ckpt,coldstart=3000")
        until(site, saving, ("gpu", "PENDING"))
        until(site, waiting, ("profile", "RUNNING"))
        site.until(lambda: "runs in the profiling partition profile" in why(site, waiting), "a daemon that sees it run")
        assert where(site, plain) == ("profile", "RUNNING"), "it did not agree, and goes on beyond its time"
        site.until(lambda: saving not in site.begin_times(), "a job that may go on")
        last = submit(site, "last_kind", 4, "true", "slurmsched:ckpt")
        daemon.kill()
    # From here on Slurm is alone. The last job waits, and so does the one that it waits for.
    tell(site, "go")
    for job in (plain, waiting):
        until(site, job, ("profile", "COMPLETED"))
    until(site, last, ("profile", "COMPLETED"))
    site.lab.ask(["scancel", *map(str, blockers)])
    for job in (saving, measured):
        until(site, job, ("gpu", "COMPLETED"))
    query = ["sacct", "-n", "-X", "-D", "-P", "-o", "jobid,state", "-j", f"{short},{plain},{waiting},{saving}"]
    runs = {*(f"{job}|COMPLETED" for job in (short, plain, waiting, saving)), f"{saving}|REQUEUED"}
    site.until(lambda: set(site.lab.ask(query).split()) == runs, f"just {runs} in sacct")


def test_nodes_move_live_under_a_running_job_and_go_back(site):
    lab = site.lab
    cluster = SlurmCommand(CommandRunner(environment=lab.env()))

    def lists() -> dict[str, tuple[str, ...]]:
        state = cluster.observe()
        return {name: members(state.partitions, name) for name in ("gpu", "profile")}

    def cycle(number: int) -> CycleReport:
        """One cycle of a daemon of its own, so that none waits for the move before."""
        with site.store() as store:
            world = CycleContext(
                cluster=cluster,
                memory=Memory(store, cluster=lab.cluster),
                model=RuntimeModel.fit(outcomes_of(())),
                policy=Policy(find_ordering("fifo"), rules),
                writer=Writer(cluster, Budget(20.0, 100)),
                clock=SystemClock(),
            )
            return run_cycle(world, number, time.time(), "act")

    rules = Rules(powers=frozenset({"nodes"}), profiling=ProfilingRules("profile", home="gpu", t_s=0.0))
    own = lists()
    assert own == {"gpu": ("n1", "n2"), "profile": ("n3",)}
    job = submit(site, "stays", 4, until_told(site, "moved"))
    until(site, job, ("profile", "RUNNING"))
    site.until(lambda: cluster.observe().running.started_s[0] < time.time(), "a start that is over")
    for number, expected in (
        (1, {"gpu": ("n2",), "profile": ("n1", "n3")}),
        (2, {"gpu": ("n2", "n3"), "profile": ("n1",)}),
    ):
        assert cycle(number).actions == {"MoveNodes": 1}
        assert lists() == expected
    assert where(site, job) == ("profile", "RUNNING")
    with site.store() as store:
        assert give_nodes_back(cluster, lab.cluster, store) == ""
    assert lists() == own
    tell(site, "moved")
    until(site, job, ("profile", "COMPLETED"))


@pytest.mark.attack
def test_a_daemon_that_is_killed_between_the_two_writes_of_a_move_leaves_no_node_out_and_they_go_back(site):
    lab = site.lab
    cluster = SlurmCommand(CommandRunner(environment=lab.env()))
    own = {"gpu": ("n1", "n2"), "profile": ("n3",)}
    move = MoveNodes.between(own, own, {"gpu": ("n2",), "profile": ("n1", "n3")})
    with site.store() as store:
        memory = Memory(store, cluster=lab.cluster)
        assert memory.intend(1, [move], time.time()) == (move,)
    first, _ = lines(move)
    lab.ask(["scontrol", *first.split()])  # here the daemon is killed
    state = cluster.observe()
    assert {name: members(state.partitions, name) for name in own} == {"gpu": ("n1", "n2"), "profile": ("n1", "n3")}
    with site.store() as store:
        assert give_nodes_back(cluster, lab.cluster, store) == ""
        assert store.loans(lab.cluster) == ()
    state = cluster.observe()
    assert {name: members(state.partitions, name) for name in own} == own
