"""GPUs shared on a real Slurm: a daemon makes pairs of measured jobs by itself, and what that saves."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from lab_site import Site
from node_programs import node_programs, node_settings
from node_worlds import PROGRAMS, scripted_nvml
from sharing_burst import JOBS, jobs_of_burst, measured, measured_speeds, measured_use

from slurmsched.errors import LabError
from slurmsched.lab import Lab, LabSpec, programs
from slurmsched.lab.users import uid_of

pytestmark = pytest.mark.lab

CONTROL = PROGRAMS.parents[1] / "tests/prolog/mps_control.py"
POWER = "order = true\nshare = true"
SHARE = "memory_mib = 20000"
#: Two processes on each GPU, whose load jumps after every 50 samples.
JUMPS = "0 * gpus 4\n0 * memory 9000\n0 * processes 2\n" + "".join(
    f"#{50 * jump} * util {90 if jump % 2 else 10}/10\n" for jump in range(200)
)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """One node of four whole GPUs, n1, and one on which four are shared, n2."""
    if os.geteuid() != 0:
        pytest.skip("a daemon under another user needs root")
    with tempfile.TemporaryDirectory(prefix="shared-", dir="/tmp") as directory:
        home = Path(directory)
        home.chmod(0o755)
        spec = LabSpec(nodes=2, shared_nodes=1, cpus=16, extra_conf=tuple(node_programs(home)))
        try:
            programs.check(spec)
        except LabError as error:
            pytest.skip(str(error))
        with Lab(home / "lab", spec) as up:
            yield up


def used(site: Site) -> str:
    shown = site.lab.ask(["scontrol", "show", "node", "n2", "-d"])
    return next(word for word in shown.split() if word.startswith("GresUsed="))


def details(site: Site, job: int) -> list[str]:
    return site.said("why", str(job))["why"]["details"]


def test_a_daemon_lets_measured_jobs_share_gpus_by_itself(lab):
    site = Site.of(lab, power=POWER, share=SHARE, policy="ordering = 'fifo'")
    measured(site, "light_1", 600.0)
    blocker = lab.submit("--gres=gpu:4", "-wn1", "-t600", "--wrap=sleep 600", "-o/dev/null", user="alice")
    site.until(lambda: site.states()[blocker] == "RUNNING", "the whole GPUs to be taken")

    def light(*options: str, name: str = "light_7", user: str = "alice") -> int:
        return lab.submit(f"-J{name}", "-t20", "--wrap=sleep 600", "-o/dev/null", *options, user=user)

    first = [light("--gpus=1"), light("--gres=gpu:2", "--comment=note")]
    alone = [
        light("--gpus=1", "--comment=slurmsched:nopack"),
        light("--gpus=1", name="unknown"),
        light("--gpus=1", "--cpus-per-gpu=2"),
    ]
    with site.daemon():
        site.until(lambda: {site.states()[job] for job in first} == {"RUNNING"}, "two jobs on slots")
        assert used(site).startswith("GresUsed=gpu:0,slot:i0:1(IDX:0),slot:i1:1(IDX:2),slot:i2:1(IDX:4),")
        second = [light("--gpus-per-node=2"), light("--gpus=1")]  # the narrow one would fit on either host
        site.until(lambda: {site.states()[job] for job in second} == {"RUNNING"}, "two more beside them")
        assert used(site).startswith("GresUsed=gpu:0,slot:i0:2(IDX:0-1),slot:i1:2(IDX:2-3),slot:i2:2(IDX:4-5),")
        assert {site.states()[job] for job in alone} == {"PENDING"}
        comments = lab.ask(["squeue", "-h", "-t", "R", "-p", "shared", "-o", "%A %k"]).split("\n")
        said = dict(line.split(" ", 1) for line in comments if line)
        assert said[str(first[1])] == "note;slurmsched:share=1+2"
        assert {said[str(job)] for job in second} == {"slurmsched:share=0", "slurmsched:share=1+2"}
        beside = f"It has 1 GPU (0) of n2 as a job that shares, with job {first[0]}."
        site.until(lambda: beside in details(site, second[1]), "the daemon to see it")
        declined, unknown, per_gpu = (
            next(words for words in details(site, job) if words.startswith("It shares no GPUs")) for job in alone
        )
        assert declined == "It shares no GPUs: its owner does not want to share."
        assert unknown == "It shares no GPUs: neither it nor a job of its kind was ever measured."
        assert per_gpu.startswith("It shares no GPUs: it asks for CPUs or memory per GPU,")
        path = site.said("explain", str(alone[0]))["explain"]["sentences"][-1]
        assert re.fullmatch(r"Share score: .*, so Tiny \(.*\)\.", path)
        late = light("--gpus=1")
        site.until(lambda: "share=3" in lab.ask(["squeue", "-h", "-j", str(late), "-o", "%k"]), "one more on its way")
    # killed: the next one goes on from what it finds
    with site.daemon():
        site.until(lambda: site.states()[late] == "RUNNING", "the last job on its slot")
    assert used(site).endswith("slot:i3:1(IDX:6)")
    states = {state.rstrip("-") for state in lab.ask(["sinfo", "-h", "-N", "-o", "%T"]).split()}  # -: planned
    assert states <= {"mixed", "allocated"}
    checked = {found["name"]: found["ok"] for found in site.said("check")["findings"]}
    assert checked["shared GPUs"] is True
    lab.cancel_all()


@contextmanager
def with_mps(lab: Lab) -> Iterator[Path]:
    """Let nodes start the stand-in of MPS; yields the directory of the sets of GPUs that jobs of n2 share."""
    home = lab.directory.parent
    shutil.copy(CONTROL, home / "control.py")
    control = home / "nvidia-cuda-mps-control"
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
    control.write_text(f'#!/bin/sh\nexec {python} -I {home}/control.py "$@"\n')
    control.chmod(0o755)
    for number in range(4):
        about = home / "gpus" / str(number) / "information"
        about.parent.mkdir(parents=True)
        about.write_text(f"GPU UUID: \t GPU-0000000{number}-1111-2222-3333-444444444444\nDevice Minor: \t {number}\n")
    places = {"RUN_DIR": "run", "TASK_DIR": "tasks", "SPOOL_DIR": "spool", "MPS_DIR": "mps", "GPU_INFO_DIR": "gpus"}
    said = {name: str(home / place) for name, place in places.items()} | {"PYTHON": sys.executable, "MPS": str(control)}
    (home / "node.conf").write_text("".join(f"{key}={value}\n" for key, value in said.items()))
    yield home / "run" / "mps.n2"
    (home / "node.conf").unlink()


def test_a_daemon_lets_jobs_join_a_wider_one_by_itself_and_they_outlast_it_with_its_mps(lab):
    site = Site.of(lab, power=POWER, share=SHARE, policy="ordering = 'fifo'")
    measured(site, "light_1", 600.0)
    blocker = lab.submit("--gres=gpu:4", "-wn1", "-t600", "--wrap=sleep 600", "-o/dev/null", user="alice")
    site.until(lambda: site.states()[blocker] == "RUNNING", "the whole GPUs to be taken")

    def runs(request: str) -> int:
        job = lab.submit("-Jlight_7", "-t20", "--wrap=sleep 600", "-o/dev/null", request, user="alice")
        site.until(lambda: site.states()[job] == "RUNNING", f"{request} on slots")
        return job

    def in_sets() -> list[tuple[str, int]]:
        return sorted((path.parent.name.partition(".")[0], int(path.name)) for path in sets.glob("*/[0-9]*"))

    with with_mps(lab) as sets, site.daemon():
        host, two, one = runs("--gres=gpu:4"), runs("--gpus-per-node=2"), runs("--gpus=1")
        assert used(site) == "GresUsed=gpu:0,slot:i0:2(IDX:0-1),slot:i1:2(IDX:2-3),slot:i2:2(IDX:4-5),slot:i3:1(IDX:6)"
        site.until(lambda: in_sets() == [("0+1+2+3", job) for job in (host, two, one)], "all in the set of the host")
        company = f"It has 2 GPUs (0+1) of n2 as a job that shares, with job {host}."
        site.until(lambda: company in details(site, two), "the daemon to see it")
        lab.ask(["scancel", str(host)])
        site.until(lambda: in_sets() == [("0+1+2+3", job) for job in (two, one)], "the host to leave")
        site.until(lambda: used(site).endswith("slot:i3:0(IDX:N/A)"), "its slots to come free")
        later = runs("--gpus=1")
        assert used(site).endswith("slot:i3:0(IDX:N/A)"), "beside one of them"
        assert {site.states()[job] for job in (two, one, later)} == {"RUNNING"}
        assert len(list((sets.parents[1] / "mps").iterdir())) == 1, "one control daemon"
        lab.cancel_all()
        site.until(lambda: not list((sets.parents[1] / "mps").iterdir()), "the daemon of MPS to end")
    assert list(sets.iterdir()) == list(sets.parent.glob("*.share")) == []


#: Passes lines on one by one; after so many about jobs on their way it kills the daemon that sends them.
SCONTROL = """#!/bin/sh
[ $# -eq 0 ] || exec scontrol "$@"
while IFS= read -r line; do
    echo "$line" | scontrol || exit
    case $line in *comment=*share=* | *reqnodelist=* | *starttime=now) ;; *) continue ;; esac
    echo "$line" >>{home}/moved
    [ "$(wc -l <{home}/moved)" -ne {at} ] || {{ kill -KILL $PPID; exit; }}
done
"""


def dies_at(site: Site, line: int) -> None:
    """Start a daemon that is killed right after Slurm has taken so many lines of moves to shared GPUs; it is dead."""
    programs = site.directory / "bin"
    programs.mkdir(exist_ok=True)
    for name in ("squeue", "sinfo", "sprio", "sdiag", "sacct", "sacctmgr", "scancel"):
        (programs / name).write_text(f'#!/bin/sh\nexec {name} "$@"\n')
    (programs / "scontrol").write_text(SCONTROL.format(home=site.directory, at=line))
    for program in programs.iterdir():
        program.chmod(0o755)
    site.write(slurm=f"timeout_s = 30\nbackend = 'command'\nbin_dir = '{programs}'")
    daemon = site.start()
    try:
        site.until(lambda: daemon.poll() is not None, f"the daemon to be killed at line {line}")
    finally:
        daemon.kill()
    assert daemon.wait(90.0) == -signal.SIGKILL, site.log[-3000:]


def has(lab: Lab, job: int) -> str:
    """What a job that runs has of its node, as Slurm counts it."""
    shown = lab.ask(["scontrol", "-d", "show", "job", str(job)])
    return " ".join(word for word in shown.split() if word.startswith(("Partition=", "GRES=")))


def broken_off(lab: Lab, line: int, *requests: str, **sections: str) -> tuple[Site, list[int]]:
    """Jobs with *requests* whose daemon was killed at a line of their moves; GPUs of their own are free by now."""
    site = Site.of(lab, power=POWER, share=SHARE, policy="ordering = 'fifo'", **sections)
    measured(site, "light_1", 600.0)
    whole = ("--gres=gpu:4", "-wn1", "-t600", f"-J{site.names[0]}", "--wrap=sleep 600", "-o/dev/null")
    blocker = lab.submit(*whole, user="alice")
    site.until(lambda: site.states()[blocker] == "RUNNING", "the whole GPUs to be taken")
    options = ("-Jlight_7", "-t20", "--wrap=sleep 600", "-o/dev/null", "--comment=note")
    jobs = [lab.submit(request, *options, user="alice") for request in requests]
    dies_at(site, line)
    lab.ask(["scancel", str(blocker)])
    return site, jobs


def demand_that_all_run_killed_at(lab: Lab, line: int, *requests: str, **sections: str) -> None:
    """Jobs with *requests* run that a daemon was about to move when it was killed, where their moves had come to."""
    site, jobs = broken_off(lab, line, *requests, **sections)
    site.until(lambda: {site.states()[job] for job in jobs} == {"RUNNING"}, f"jobs to run, killed at line {line}")
    moved = {int(job) for job in re.findall(r"jobid=(\d+) .*partition=shared", (site.directory / "moved").read_text())}
    for job in jobs:
        begins, other = (SHARES, "gpu:") if job in moved else (OWN, "slot")
        words = has(lab, job)
        assert words.startswith(begins), (job, moved)
        assert other not in words.removeprefix(begins), (job, moved)
    lab.cancel_all()


MOVED = ("--gpus=1", "--gres=gpu:2")
SHARES, OWN = "Partition=shared GRES=slot:", "Partition=gpu GRES=gpu:"


@pytest.mark.parametrize("line", [1, 2, 3, 4])
def test_a_job_whose_daemon_dies_at_any_line_of_its_move_starts_by_itself(lab, line):
    demand_that_all_run_killed_at(lab, line, *MOVED)


def test_release_all_says_what_it_healed_of_a_move_that_broke_off(lab):
    slow = {"daemon": "mode = 'act'\nevery_s = 60"}  # nothing happens by itself for two minutes
    site, jobs = broken_off(lab, 3, *MOVED, **slow)
    done = site.run("release-all")
    assert done.returncode == 0, done.stderr
    assert "of jobs on their way to shared GPUs 1 may start, 1 have their own" in done.stdout
    site.until(lambda: {site.states()[job] for job in jobs} == {"RUNNING"}, "both jobs to run")
    comments = [lab.ask(["squeue", "-h", "-j", str(job), "-o", "%P %k"]).strip() for job in jobs]
    assert sorted(comments) == ["gpu note", "shared note;slurmsched:share=0"]
    lab.cancel_all()


@pytest.mark.attack
@pytest.mark.soak
@pytest.mark.parametrize("healer", ["a daemon", "release-all"])
def test_a_job_that_slurm_does_not_start_with_its_slots_has_its_own_gpus_back_and_runs(lab, healer):
    site, (job,) = broken_off(lab, 2, "--gpus=1")

    def reason() -> str:
        return lab.ask(["squeue", "-h", "-j", str(job), "-o", "%r"]).strip()

    lab.ask(["scontrol", "update", "partitionname=shared", "maxnodes=0"])
    try:
        site.until(lambda: reason() == "PartitionNodeLimit", "a job whose slots are of no use")
        if healer == "release-all":
            done = site.run("release-all")
            assert (done.returncode, "0 may start, 1 have their own" in done.stdout) == (0, True), done.stdout
            site.until(lambda: site.states()[job] == "RUNNING", "the job, without a daemon")
        else:
            with site.daemon():
                site.until(lambda: site.states()[job] == "RUNNING", "the job", 60.0)
        assert has(lab, job).startswith(OWN)
    finally:
        lab.ask(["scontrol", "update", "partitionname=shared", "maxnodes=unlimited"])
    lab.cancel_all()


@pytest.mark.attack
@pytest.mark.soak
@pytest.mark.parametrize("line", range(1, 10))
def test_jobs_of_every_kind_run_wherever_their_move_breaks_off(lab, line):
    requests = ("--gpus=1", "--gres=gpu:1", "--gpus-per-node=2")  # three lines each: token, slots, begin
    demand_that_all_run_killed_at(lab, line, *requests, daemon="mode = 'act'\nevery_s = 10")


def watched(lab: Lab) -> str:
    """Let nodes watch pairs from now on; the address that they tell."""
    home = lab.directory.parent
    scripted_nvml(home)
    (home / "script").write_text(JUMPS)
    return node_settings(lab, home, 0.02, str(uid_of(lab.user("operator"))))


def test_of_an_unstable_pair_the_job_that_agreed_is_requeued_and_goes_on_alone(lab):
    address = watched(lab)
    site = Site.of(
        lab, power=f"{POWER}\nrequeue = true", share=SHARE, policy="ordering = 'fifo'", profile=f"listen = '{address}'"
    )
    measured(site, "light_1", 600.0)
    blocker = lab.submit("--gres=gpu:4", "-wn1", "-t600", "--wrap=sleep 600", "-o/dev/null", user="alice")
    site.until(lambda: site.states()[blocker] == "RUNNING", "the whole GPUs to be taken")

    def light(comment: str) -> int:
        work = '[ -n "$SLURM_RESTART_COUNT" ] || sleep 600'
        return lab.submit(
            "-Jlight_7", "--gpus=1", "-t20", f"--wrap={work}", "-o/dev/null", f"--comment={comment}", user="alice"
        )

    def asks(job: int) -> str:
        """How often it was started again, and what it asks for now."""
        shown = lab.ask(["squeue", "-h", "-j", str(job), "-O", "RestartCnt:9,Partition:20,Comment:80"])
        return " ".join(shown.split())

    with site.daemon():
        host = light("note")
        site.until(lambda: site.states()[host] == "RUNNING", "the host to run on its slot")
        guest = light("slurmsched:ckpt")  # shares for a second or two, which nobody may see
        site.until(lambda: asks(guest) == "1 gpu slurmsched:ckpt", "the guest to ask for a GPU of its own")
        assert asks(host).endswith("note;slurmsched:share=0")
        lab.ask(["scancel", str(blocker)])
        site.until(lambda: site.states()[guest] == "COMPLETED", "the guest to end alone")
        assert site.states()[host] == "RUNNING"
        story = [(event["kind"], event["details"].get("why", "")) for event in site.said("story", str(guest))["story"]]
    kinds = [kind for kind, _ in story]
    assert kinds.count("unstable together") == kinds.count("requeue asked") == kinds.count("unshared") == 1
    assert next(why for kind, why in story if kind == "unstable together").startswith("utilisation of GPU-0: ")
    shown = lab.ask(["scontrol", "show", "job", str(guest)])
    assert " NodeList=n1 " in " ".join(shown.split())
    assert "Restarts=1 " in shown
    lab.cancel_all()


def test_a_guest_in_turns_is_suspended_and_a_killed_daemon_leaves_it_to_release_all(lab):
    address = watched(lab)
    site = Site.of(
        lab,
        power=f"{POWER}\nsuspend = true",
        share=f"{SHARE}\nother_users = true\nsuspend_most_s = 3600",
        policy="ordering = 'fifo'",
        profile=f"listen = '{address}'",
    )
    measured(site, "light_1", 600.0)
    measured(site, "light_1", 600.0, user="bob")
    blocker = lab.submit("--gres=gpu:4", "-wn1", "-t600", "--wrap=sleep 600", "-o/dev/null", user="alice")
    site.until(lambda: site.states()[blocker] == "RUNNING", "the whole GPUs to be taken")

    def light(user: str) -> int:
        return lab.submit("-Jlight_7", "--gpus=1", "-t20", "--wrap=sleep 900", "-o/dev/null", user=user)

    def shown(job: int) -> list[str]:
        """Its state, its node, how long it ran, and when its limit ends, by Slurm."""
        fields = "StateCompact:9,NodeList:20,TimeUsed:20,EndTime:30"
        return lab.ask(["squeue", "-h", "-j", str(job), "-O", fields]).split()

    with site.daemon():
        host = light("alice")
        site.until(lambda: site.states()[host] == "RUNNING", "the host to run on its slot")
        guest = light("bob")
        site.until(lambda: site.states()[guest] == "SUSPENDED", "the guest to be suspended")
        assert site.states()[host] == "RUNNING"
        before = shown(guest)
        site.until(lambda: any("on the same GPUs" in said for said in details(site, guest)), "words for the guest")
        words = f"Job {guest} on its GPUs was suspended"
        site.until(lambda: any(words in said for said in details(site, host)), "words for the host")
        site.more_cycles(5)
        assert shown(guest) == before, "neither the time used nor the end moves"
        assert before[:2] == ["S", "n2"]
    lab.ask(["scontrol", "suspend", str(blocker)])  # by an administrator, while no daemon runs
    done = site.run("release-all")
    assert "1 job that we had suspended run again" in done.stdout, done.stdout + done.stderr
    site.until(lambda: site.states()[guest] == "RUNNING", "the guest to go on")
    assert shown(guest)[3] > before[3], "Slurm moves the end of its limit by the time suspended"
    assert site.states()[blocker] == "SUSPENDED"
    lab.ask(["scontrol", "resume", str(blocker)])
    lab.cancel_all()


#: Runs until so many seconds of work are done, at the speed that its kind keeps beside whoever else holds its GPUs.
WORKER = """
import json, os, re, subprocess, sys, time
kind, work_s, home = sys.argv[1], float(sys.argv[2]), sys.argv[3]
job = os.environ["SLURM_JOB_ID"]
comment = subprocess.run(["squeue", "-h", "-j", job, "-o", "%k"], capture_output=True, text=True).stdout
share = re.search(r"slurmsched:share=([0-9+]+)", comment)
places = [os.path.join(home, "gpu" + gpu) for gpu in share[1].split("+")] if share else []
speeds = json.load(open(os.path.join(home, "speeds.json")))
for place in places:
    os.makedirs(place, mode=0o777, exist_ok=True)
    open(os.path.join(place, job), "w").write(kind)
before_s = time.monotonic()
while work_s > 0:
    time.sleep(0.25)
    others = [open(os.path.join(place, name)).read() for place in places for name in os.listdir(place) if name != job]
    now_s = time.monotonic()
    work_s -= (now_s - before_s) * min([speeds[kind][other] for other in others if other], default=1.0)
    before_s = now_s
for place in places:
    os.unlink(os.path.join(place, job))
"""


def burst(directory: Path, shared_nodes: int, power: str) -> tuple[float, float, int, int]:
    """Mean queueing delay and completion time of a burst on eight GPUs, how many jobs shared, and began beside one."""
    with Lab(directory / "lab", LabSpec(nodes=2, shared_nodes=shared_nodes, cpus=16)) as lab:
        home = lab.layout.work / "worker"
        home.mkdir()
        home.chmod(0o777)
        (home / "speeds.json").write_text(json.dumps(measured_speeds()))
        (home / "worker.py").write_text(WORKER)
        site = Site.of(lab, power=power, share="memory_mib = 23000", policy="ordering = 'fifo'")
        for kind, use in measured_use().items():
            measured(site, f"{kind}_0", 18.0, *use)
        with site.daemon():
            jobs = [
                lab.submit(
                    f"-J{name}", "--gpus=1", "-t2", "-o/dev/null",
                    f"--wrap=exec python3 {home}/worker.py {kind} {work_s:.2f} {home}", user="alice",
                )
                for kind, name, work_s in jobs_of_burst()
            ]  # fmt: skip
            site.until(lambda: {site.states()[job] for job in jobs} == {"COMPLETED"}, "the burst to end", 900.0)
        asked = ["env", "SLURM_TIME_FORMAT=%s", "squeue", "-h", "-t", "all", "-O"]
        said = lab.ask([*asked, "JobID:9,SubmitTime:12,StartTime:12,EndTime:12,Comment:40"]).splitlines()
    ours = [row for row in map(str.split, said) if int(row[0]) in jobs]
    times = [(int(row[1]), int(row[2]), int(row[3]), row[4]) for row in ours]
    queued_s = np.mean([started - submitted for submitted, started, *_ in times])
    took_s = np.mean([ended - submitted for submitted, _, ended, _ in times])
    shared = sorted((started, ended, token) for _, started, ended, token in times if "share=" in token)
    beside = sum(
        any(ended > started and its == token for _, ended, its in shared[:at])
        for at, (started, _, token) in enumerate(shared)
    )
    return float(queued_s), float(took_s), len(shared), beside


@pytest.mark.soak
def test_a_burst_queues_for_fewer_seconds_where_gpus_are_shared(tmp_path, capsys):
    if os.geteuid() != 0:
        pytest.skip("a daemon under another user needs root")
    told = {}
    for name, shared_nodes, power in (("without", 0, "order = true"), ("with", 1, POWER)):
        with tempfile.TemporaryDirectory(prefix="shared-", dir="/tmp") as directory:
            Path(directory).chmod(0o755)
            told[name] = burst(Path(directory), shared_nodes, power)
    with capsys.disabled():
        for name, (queued_s, took_s, shared, beside) in told.items():
            print(
                f"\n{name} sharing: queued {queued_s:.1f} s, done after {took_s:.1f} s (means), {shared} jobs shared,"
                f" {beside} runs began beside another"
            )
    assert told["with"][2] > JOBS // 4
    assert told["with"][0] < told["without"][0]
