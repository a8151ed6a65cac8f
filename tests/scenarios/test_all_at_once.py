"""All powers on one Slurm at once: deadlines, sharing, profiling, jobs that give way, fair queueing and predictions."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from deadline_jobs import DEADLINE, STEPS, answer, done_steps, ended, saving, submit, taught
from lab_site import USERS, Site, history
from node_programs import node_programs, node_settings
from node_worlds import scripted_nvml
from sharing_burst import measured

from slurmsched.config.settings import PowerSettings
from slurmsched.errors import LabError
from slurmsched.lab import Lab, LabSpec, programs

pytestmark = pytest.mark.lab

SCRIPT = Path(__file__).parents[2] / "contrib/slurm.conf.d/job_submit.lua"
CONF = (
    "PartitionName=gpu Nodes=n[1-2] Default=YES MaxTime=INFINITE State=UP",
    "PartitionName=profile Nodes=n3 MaxTime=INFINITE PriorityTier=2 State=UP",
    "MinJobAge=3600",  # slurmctld still knows the first job when the last one has ended
)
LIGHT = "0 * gpus 4\n0 * memory 3000\n0 * processes 1\n0 * util 10/5\n"
DAEMON = "mode = 'act'\nevery_s = 1"
PROFILE = "listen = '{address}'\nhome = 'gpu'\nt_s = 3\nt_least_s = 3\nwait_s = 3600\nn_max = 4\nn_least = 4"
SECTIONS = {
    "power": "\n".join(f"{power.name} = true" for power in fields(PowerSettings)),
    "policy": "ordering = 'wfq'",
    "predict": "every_s = 1",
    "deadline": DEADLINE,
    "share": "memory_mib = 20000",
}
DEADLINES = {"strict": "slurmsched:deadline=+75s", "never": "slurmsched:deadline=+2s"}
NODES = ["sinfo", "-h", "-N", "-o", "%N %P"]
PROFILES = "SELECT node FROM profiles WHERE job_id = ?"
PLACES = {"ranked", "standing", "held", "released"}
COST = "shared with"  #: comes when a partner has gone, before or after the end of a job
SHARED = ["submitted", "shared", "started", "ended"]
STORIES = {
    "saver": ["submitted", "started", "asked to stop", "requeued", "started", "ended"],
    "new": ["submitted", "started", "ended"],
    "host": SHARED,
    "guest": SHARED,
    "plain": ["submitted", "started", "ended"],
    "strict": ["submitted", "deadline", "told", "started", "ended", "deadline"],
    "never": ["submitted", "deadline", "told", "started", "ended"],
}
TRACES = (
    "SELECT count(*) FROM intents WHERE closed_s IS NULL",
    "SELECT count(*) FROM outcomes o JOIN jobs j USING (job_id) WHERE j.phase != 2",
    "SELECT count(*) FROM (SELECT 1 FROM outcomes GROUP BY job_id, restart HAVING count(*) > 1)",
)
"""Each counts what a daemon would leave behind in the database that did not end its work."""


@pytest.fixture(scope="module")
def whole_lab() -> Iterator[tuple[Lab, str]]:
    """Nodes n1 and n2 in gpu, n3 in profile and n4 in shared, each with our prolog and epilog, and our job_submit.lua.

    With the address where the nodes deliver what they measure.
    """
    if os.geteuid() != 0:
        pytest.skip("moves of nodes need root")
    with tempfile.TemporaryDirectory(prefix="sslab-", dir="/tmp") as directory:
        home = Path(directory)
        home.chmod(0o755)
        scripted_nvml(home)
        (home / "script").write_text(LIGHT)
        script = home / "job_submit.lua"
        changed = {'PROFILE_PARTITION = ""': 'PROFILE_PARTITION = "profile"', "PROFILE_GPUS = 8": "PROFILE_GPUS = 4"}
        text = SCRIPT.read_text()
        for old, new in changed.items():
            text = text.replace(old, new)
        script.write_text(text)
        spec = LabSpec(
            nodes=4, shared_nodes=1, cpus=16, job_submit_lua=str(script), extra_conf=(*CONF, *node_programs(home))
        )
        try:
            programs.check(spec)
        except LabError as error:
            pytest.skip(str(error))
        with Lab(home / "lab", spec) as lab:
            yield lab, node_settings(lab, home, 0.05, "root")


class Burst:
    """Jobs of a site, by the parts that they play."""

    def __init__(self, site: Site) -> None:
        self.site, self.jobs = site, dict[str, int]()

    def submit(self, name: str, kind: str, user: str, comment: str = "") -> None:
        """Submit a job of one GPU that ends when it is told to."""
        script = f"until [ -e {self._sign(name)} ]; do sleep 0.2; done"
        options = ("--gpus=1", "-t20", "--requeue", "-o/dev/null", f"-J{kind}", f"--comment={comment}")
        self.jobs[name] = self.site.lab.submit(*options, f"--wrap={script}", user=user)

    def tell(self, *names: str) -> None:
        """Let these jobs end."""
        for name in names:
            self._sign(name).touch()

    def where(self, name: str) -> str:
        return self.site.lab.ask(["squeue", "-h", "-t", "all", "-j", str(self.jobs[name]), "-o", "%P %T"]).strip()

    def until(self, where: str, *names: str) -> None:
        for name in names:
            self.site.until(lambda name=name: self.where(name) == where, f"{name} in {where}")

    def story(self, name: str) -> list[str]:
        """What happened to a job, without its changing places in the order.

        After two slow cycles a job starts on shared GPUs by itself, before it is let, which Slurm may refuse then.
        """
        told = self.site.said("story", str(self.jobs[name])).get("story", [])
        late = [event for event in told if event["kind"] == "refused" and event["details"]["action"] == "StartShared"]
        return [event["kind"] for event in told if event not in late and event["kind"] not in PLACES | {"let start"}]

    def _sign(self, name: str) -> Path:
        return self.site.lab.layout.work / f"{self.site.names[0]}-{name}"


def test_with_all_powers_on_every_job_gets_what_it_was_promised_and_its_story_is_right(whole_lab):
    """The daemon is killed once, and again while the job that was asked to stop saves its work."""
    lab, address = whole_lab
    site = taught(Site.of(lab, None, **SECTIONS, profile=PROFILE.format(address=address)))
    measured(site, "light_1", 600.0)
    own, burst = lab.ask(NODES), Burst(site)
    jobs = burst.jobs
    with site.daemon():
        burst.submit("new", "model_1", "alice")
        burst.until("profile RUNNING", "new")
        # The first prediction may have to wait until its code is compiled.
        site.until(lambda: site.said("eta", str(jobs["new"]))["eta"][0]["start_s"], "a prediction", 300.0)
        burst.tell("new")
        site.until(lambda: site.sql(PROFILES, jobs["new"]) == [("n3",)], "the profile of a new kind of job")
        # Its GPU counted as useless for profiling while it ran on, so that a node may have moved there.
        site.until(lambda: lab.ask(NODES) == own, "every node in its own partition")
    with saving(site, nodes=2) as (saver, home):
        jobs["saver"] = saver
        with site.daemon():
            for name in ("host", "guest"):
                burst.submit(name, "light_7", "alice", "slurmsched:noprofile")
                burst.until("shared RUNNING", name)
            jobs["plain"] = submit(site, "", "-N2")
            site.until(lambda: site.said("eta", str(jobs["plain"]))["eta"][0]["start_s"], "a prediction")
            for name, comment in DEADLINES.items():
                jobs[name] = submit(site, comment, "-N2")
            site.until(lambda: answer(site, jobs["strict"]) == "promised", "a promise")
            site.until(lambda: answer(site, jobs["never"]) == "refused", "a refusal")
            site.until(lambda: "asked to stop" in burst.story("saver"), "the question to the running job")
        with site.daemon():
            site.until(lambda: answer(site, jobs["strict"]) == "met", "a promise that is met", 300.0)
            burst.tell("host", "guest")
            end_s = {name: ended(site, job) for name, job in jobs.items()}
            site.until(lambda: all(burst.story(name).count("ended") for name in jobs), "the end of each story")
            site.until(lambda: all(COST in burst.story(name) for name in ("host", "guest")), "what sharing cost both")
            site.more_cycles()
            told = {name: burst.story(name) for name in jobs}
            assert {name: [kind for kind in kinds if kind != COST] for name, kinds in told.items()} == STORIES
            assert {name for name, kinds in told.items() if COST in kinds} == {"host", "guest"}
        steps = done_steps(home)
    assert steps == list(range(STEPS)), "no step is lost and none is done twice"
    assert end_s["strict"] < min(end_s["plain"], end_s["never"]), "they came first, and promised jobs go first"
    assert lab.ask(NODES) == own
    assert (site.begin_times(), site.points()) == ({}, {})
    for trace in TRACES:
        assert site.sql(trace) == [(0,)], trace
    for folder in ("run", "tasks", "spool"):
        site.until(lambda folder=folder: [*(lab.directory.parent / folder).iterdir()] == [], f"an empty {folder}")


TOOK_S = {"filler": 100.0, "long": 90.0, "middle": 50.0, "short": 25.0}
"""Runtimes of kinds of jobs that the site knows."""

CLUSTER = """
[[partitions]]
name = "gpu"
[[partitions]]
name = "profile"
tier = 2
[[partitions]]
name = "shared"
[[nodes]]
count = 2
gpus = 4
cpus = 16
partitions = ["gpu"]
[[nodes]]
gpus = 4
cpus = 16
partitions = ["profile"]
[[nodes]]
gpus = 4
cpus = 16
partitions = ["shared"]
[sharing]
partition = "shared"
pairs = "pairs.csv"
"""


def known(site: Site) -> None:
    """Let the site have learnt how long each kind of job takes.

    The baseline leans towards a user's other jobs, 80 s for those of 100: from 400 runs on sites have a trained model.
    """
    with site.store() as store:
        store.prune(time.time(), 1.0, 1.0)
        past = history(site.lab, list(TOOK_S) * 8)
        runtime_s = np.array([TOOK_S[name] for name in past.name])
        ended_s = time.time() - 90_000.0 + 90.0 * np.arange(len(past))
        times = dict.fromkeys(("first_submit_s", "eligible_s", "started_s"), ended_s - runtime_s)
        store.add_outcomes(site.lab.cluster, replace(past, runtime_s=runtime_s, ended_s=ended_s, **times))
    assert "promoted" in site.run("train", "--model", "runtime").stdout


def asked(site: Site) -> list[int]:
    """Submit two dozen jobs of all users while the lab is full: new kinds, deadlines, jobs that keep their work."""
    comments = ("", "slurmsched:noprofile", "slurmsched:ckpt", "slurmsched:noprofile,deadline=+20m")
    jobs, saved = [], site.directory / "saved"
    saved.mkdir()
    saved.chmod(0o777)
    for at in range(24):
        kind, gpus = ("long", "middle", "short")[at % 3], (1, 2, 4, 1, 2)[at % 5]
        file = f"{saved}/$SLURM_JOB_ID"
        # By the clock: a loop that counts its own seconds takes longer where processors are busy.
        work = (
            f"from=$(($(date +%s) - $(cat {file} || echo 0))); "
            f"until [ $(($(date +%s) - from)) -ge {TOOK_S[kind]:g} ]; do "
            f"sleep 0.5; echo $(($(date +%s) - from)) >{file}; done"
        )
        options = (
            f"--gres=gpu:{gpus}",
            "-t2",
            "--requeue",
            "-o/dev/null",
            f"-J{kind}",
            f"--comment={comments[at % 4]}",
        )
        jobs.append(site.lab.submit(*options, f"--wrap={work}", user=USERS[at % 4]))
    return jobs


@pytest.mark.soak
def test_what_if_and_a_replay_of_that_site_agree_with_what_came(whole_lab, capsys):
    lab, address = whole_lab
    profile = PROFILE.format(address=address).replace("\nt_s = 3\nt_least_s = 3", "\nt_s = 20\nt_least_s = 20")
    site = Site.of(lab, None, **SECTIONS, profile=profile)
    known(site)
    (site.directory / "cluster.toml").write_text(CLUSTER)
    (site.directory / "pairs.csv").write_text("first,second,first_speed,second_speed\nshort,short,1,1\n")
    with site.daemon():
        filler = (
            "--gres=gpu:4",
            "-N2",
            "--exclusive",
            "-t3",
            "-Jfiller",
            "-o/dev/null",
            "--comment=slurmsched:noprofile",
        )
        first = lab.submit(*filler, f"--wrap=sleep {TOOK_S['filler']}", user="alice")
        site.until(lambda: site.states()[first] == "RUNNING", "the whole GPUs to be taken")
        jobs = asked(site)
        site.more_cycles()
        answered = site.said("what-if")
        end_s = np.array([ended(site, job) for job in [*jobs, first]])
        site.more_cycles(2)
    files = ("--cluster", str(site.directory / "cluster.toml"), "--config", str(site.file))
    words = site.run("simulate", "--from-db", "20m", *files, "--no-baseline", "--json").stdout
    policy = json.loads(words)["policies"][0]
    assert policy["unfinished"] == [], words
    replayed = policy["jct_s"]["mean"]
    runs, (forecast, *_), since_s = lab_runs(lab), answered["rows"], answered["as_of_s"]  # the first is as things are
    submit_s = np.array([min(run[0] for run in runs[job]) for job in [*jobs, first]])
    waiting = [not any(start_s <= since_s < last_s for _, start_s, last_s in runs[job]) for job in jobs]
    jct_s, left_s = (end_s - submit_s).mean(), (end_s[:-1][waiting] - since_s).mean()
    with capsys.disabled():
        print(f"\nuntil the end: {left_s:.1f} s, by what-if {forecast['mean_end_s']:.1f} s ({forecast['starts']} jobs)")
        print(f"completion time: {jct_s:.1f} s, replayed {replayed:.1f} s ({len(end_s)} jobs)")
    assert replayed == pytest.approx(jct_s, rel=0.15)
    # What-if cannot know which kinds will be measured, and then share GPUs.
    assert forecast["mean_end_s"] == pytest.approx(left_s, rel=0.15)


def lab_runs(lab: Lab) -> dict[int, list[tuple[float, float, float]]]:
    """The runs of each job: when it was submitted for this run, when it started, and when the run ended."""
    words = ["env", "SLURM_TIME_FORMAT=%s", "sacct", "-n", "-X", "-D", "-P", "-o", "jobid,submit,start,end"]
    runs: dict[int, list[tuple[float, float, float]]] = {}
    for job, *times in (row.split("|") for row in lab.ask(words).split()):
        submit_s, start_s, end_s = (float(time_s) if time_s.isdecimal() else np.inf for time_s in times)
        runs.setdefault(int(job), []).append((submit_s, start_s, end_s))
    return runs
