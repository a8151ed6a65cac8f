"""Two jobs on one GPU on a real Slurm: slots in place of GPUs, the index that was meant, and one MPS for the pair."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from threading import Event, Thread

import pytest
from node_worlds import PROGRAMS, patient_path, wait_on_lab

from slurmsched.cluster.actions import Share, StartShared, Unshare
from slurmsched.cluster.jobs import SETTLE_S
from slurmsched.cluster.text.comment import read
from slurmsched.errors import LabError
from slurmsched.lab import Lab, LabSpec, programs
from slurmsched.policies.sharing_slots import SlotRequest, next_step
from slurmsched.slurm.adapters.command import SlurmCommand
from slurmsched.slurm.adapters.command_runner import CommandRunner
from slurmsched.slurm.versions import IN_A_MOMENT
from slurmsched.slurm.write.verbs import lines

pytestmark = pytest.mark.lab

ROOT = PROGRAMS.parents[1]
CONTROL = Path(__file__).parent / "mps_control.py"
UUIDS = [f"GPU-0000000{number}-1111-2222-3333-444444444444" for number in range(4)]
WRAPPER = """#!/bin/sh
export SLURMSCHED_NODE_CONF={home}/node.conf PATH={path}
exec {home}/programs/{program}
"""
#: As far as a change gets whose sender and whose Slurm both end before its last line.
HALF = ("reqnodelist=n2", "comment=slurmsched:share=0", "tresperjob=", "trespernode=", "starttime=now")
FIELDS = ("tresperjob", "trespernode", "trespersocket", "trespertask")
#: Says what it sees, and stays until its file is there.
JOB = "srun echo step=ran; env | grep -E '^(CUDA|SLURMSCHED|SLURM_GPU)' | sort; until [ -e end ]; do sleep 0.1; done"


@dataclass
class Site:
    """A Slurm with one node of whole GPUs, n1, and one on which they are shared, n2."""

    lab: Lab
    home: Path

    def __post_init__(self) -> None:
        self.slurm = SlurmCommand(CommandRunner(environment=self.lab.env(), prefix=tuple(self.lab.command([]))))

    def submit(self, *options: str, comment: str = "") -> int:
        """A job that waits in the partition of whole GPUs."""
        held = ("--partition=gpu", "--begin=now+1hour", f"--comment={comment}", "--output=%j.out", f"--wrap={JOB}")
        return self.lab.submit(*options, *held, user="alice")

    def share(self, job_id: int, token: str) -> None:
        """Make slots of its GPUs as a first cycle does, then let it start as the next one does."""
        job = self.asked(job_id)
        self.act(Share(job_id, job.partition, "shared", "n2", token, job.comment, time.time() + 60.0))
        assert self.state(job_id) == "PENDING"
        step = next_step(replace(self.asked(job_id), waits=True), "shared", "gpu", time.time() + 60.0)
        assert step == StartShared(job_id, token)
        self.act(step)
        assert next_step(self.asked(job_id), "shared", "gpu", time.time() + 60.0) is None

    def act(self, action: object) -> None:
        """Ask until it is done, as the daemon does from cycle to cycle."""

        def done() -> bool:
            (answer,) = self.slurm.act([action])
            assert answer.refused is None or IN_A_MOMENT in answer.refused
            return answer.refused is None

        wait_on_lab(done, f"Slurm to take {action}")

    def asked(self, job_id: int) -> SlotRequest:
        fields = ("Partition", "ReqNodes", "tres-per-node", "Comment", "tres-per-job")
        words = ["squeue", "-h", "-t", "all", "-j", str(job_id), "-O", ",".join(f"{name}:.99" for name in fields)]
        shown = self.lab.ask(words).rstrip("\n")
        texts = [
            "" if (text := shown[at * 99 : at * 99 + 99].strip()) in ("N/A", "(null)") else text for at in range(5)
        ]
        partition, node, per_node, comment, per_job = texts
        share = read(comment)[0].share or ""
        return SlotRequest(job_id, partition, node, ",".join(filter(None, (per_job, per_node))), comment, share)

    def state(self, job_id: int) -> str:
        return self.lab.ask(["squeue", "-h", "-t", "all", "-j", str(job_id), "-o", "%T"]).strip()

    def runs(self, *job_ids: int) -> None:
        wait_on_lab(lambda: {self.state(job_id) for job_id in job_ids} == {"RUNNING"}, f"{job_ids} to run", 120.0)

    def reason(self, job_id: int) -> str:
        return self.lab.ask(["squeue", "-h", "-j", str(job_id), "-o", "%r"]).strip()

    def seen(self, job_id: int) -> dict[str, str]:
        """What a job that runs has in its environment."""
        output = self.lab.layout.work / f"{job_id}.out"
        wait_on_lab(lambda: output.exists() and "SLURMSCHED_SHARE" in output.read_text(), f"job {job_id} to speak")
        return dict(line.split("=", 1) for line in output.read_text().splitlines())

    def used(self, node: str = "n2") -> str:
        shown = self.lab.ask(["scontrol", "show", "node", node, "-d"])
        return next(word for word in shown.split() if word.startswith("GresUsed="))

    def end_all(self) -> None:
        (self.lab.layout.work / "end").touch()
        wait_on_lab(lambda: not self.lab.ask(["squeue", "-h", "-t", "R,CG", "-o", "%A"]).split(), "all jobs to end")
        (self.lab.layout.work / "end").unlink()


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    if os.geteuid() != 0:
        pytest.skip("the prolog of a site is root's")
    with tempfile.TemporaryDirectory(prefix="sharing-", dir="/tmp") as directory:
        home = Path(directory)
        home.chmod(0o755)
        shutil.copytree(PROGRAMS, home / "programs")
        shutil.copy(CONTROL, home / "control.py")
        control = home / "nvidia-cuda-mps-control"
        python = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
        control.write_text(f'#!/bin/sh\nexec {python} -I {home}/control.py "$@"\n')
        for number, uuid in enumerate(UUIDS):
            (home / "gpus" / str(number)).mkdir(parents=True)
            (home / "gpus" / str(number) / "information").write_text(
                f"GPU UUID: \t {uuid}\nDevice Minor: \t {number}\n"
            )
        said = {
            "PYTHON": sys.executable,
            "RUN_DIR": f"{home}/run",
            "TASK_DIR": f"{home}/tasks",
            "SPOOL_DIR": f"{home}/spool",
            "MPS": str(control),
            "MPS_DIR": f"{home}/mps",
            "GPU_INFO_DIR": f"{home}/gpus",
        }
        (home / "node.conf").write_text("".join(f"{key}={value}\n" for key, value in said.items()))
        path, hooks = patient_path(home), []
        for program in ("prolog", "epilog", "taskprolog"):
            (home / program).write_text(WRAPPER.format(home=home, path=path, program=program))
            (home / program).chmod(0o755)
            hooks.append(f"{program}={home / program}")
        control.chmod(0o755)
        spec = LabSpec(
            nodes=2,
            shared_nodes=1,
            accounting=False,
            job_submit_lua=str(ROOT / "contrib/slurm.conf.d/job_submit.lua"),
            extra_conf=(*hooks, "PrologFlags=Alloc"),
        )
        try:
            programs.check(spec)
        except LabError as error:
            pytest.skip(str(error))
        with Lab(home / "lab", spec) as lab:
            yield Site(lab, home)


def test_two_jobs_run_on_the_same_gpus_at_once(site):
    ones = [site.submit("--gpus=1", comment="slurmsched:ckpt"), site.submit("--gres=gpu:1")]
    twos = [site.submit("--gpus=2", "--nodes=1"), site.submit("--gpus-per-node=2", comment="note")]
    for job_id in ones:
        site.share(job_id, "2:t60")
    for job_id in twos:
        site.share(job_id, "0+1")
    site.runs(*ones, *twos)
    assert site.used() == "GresUsed=gpu:0,slot:i0:2(IDX:0-1),slot:i1:2(IDX:2-3),slot:i2:2(IDX:4-5),slot:i3:0(IDX:N/A)"
    first, second = (site.seen(job_id) for job_id in ones)
    assert first == second
    assert first["CUDA_VISIBLE_DEVICES"] == UUIDS[2]
    assert first["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "60"
    assert {site.seen(job_id)["CUDA_VISIBLE_DEVICES"] for job_id in twos} == {f"{UUIDS[0]},{UUIDS[1]}"}
    pipes = {site.seen(job_id)["CUDA_MPS_PIPE_DIRECTORY"] for job_id in (*ones, *twos)}
    assert len(pipes) == 2
    steps = [site.seen(job_id) for job_id in (*ones, *twos)]
    assert [(seen["step"], seen["SLURM_GPUS_ON_NODE"]) for seen in steps] == [("ran", "1")] * 2 + [("ran", "2")] * 2
    assert not [name for seen in steps for name in seen if name in ("SLURM_GPUS", "SLURM_GPUS_PER_NODE")]
    assert site.asked(ones[0]).comment == "slurmsched:ckpt;slurmsched:share=2:t60"
    (Path(first["CUDA_MPS_PIPE_DIRECTORY"]) / "control").write_text("fault\n")
    site.end_all()
    wait_on_lab(lambda: not list((site.home / "mps").iterdir()), "both daemons to end")
    wait_on_lab(lambda: len(list((site.home / "spool").glob("*.fault"))) == 2, "two records")
    faults = [json.loads(path.read_text()) for path in sorted((site.home / "spool").glob("*.fault"))]
    assert sorted((fault["job_id"], *fault["with"]) for fault in faults) == [tuple(ones), tuple(reversed(ones))]
    assert {fault["harm"] for fault in faults} == {"partners"}
    assert set(site.lab.ask(["sinfo", "-h", "-N", "-o", "%t"]).split()) == {"idle"}


def lives(pid: int) -> bool:
    """True if a process runs; a zombie has no command line."""
    command = Path(f"/proc/{pid}/cmdline")
    return command.exists() and command.read_bytes() != b""


def test_jobs_join_a_wide_one_on_the_node_see_their_own_gpus_and_keep_its_mps_when_it_ends(site):
    host, two, one = site.submit("--gpus=4"), site.submit("--gpus=2", "--nodes=1"), site.submit("--gres=gpu:1")
    for job_id, token in ((host, "0+1+2+3"), (two, "1+2:m20000"), (one, "0:time")):
        site.share(job_id, token)
        site.runs(job_id)
    assert site.used() == "GresUsed=gpu:0,slot:i0:2(IDX:0-1),slot:i1:2(IDX:2-3),slot:i2:2(IDX:4-5),slot:i3:1(IDX:6)"
    wide, guest, turns = (site.seen(job_id) for job_id in (host, two, one))
    assert wide["CUDA_VISIBLE_DEVICES"] == ",".join(UUIDS)
    assert (guest["CUDA_VISIBLE_DEVICES"], guest["SLURM_GPUS_ON_NODE"]) == (f"{UUIDS[1]},{UUIDS[2]}", "2")
    assert guest["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == f"{UUIDS[1]}=20000M,{UUIDS[2]}=20000M"
    assert guest["CUDA_MPS_PIPE_DIRECTORY"] == wide["CUDA_MPS_PIPE_DIRECTORY"]
    assert (turns["CUDA_VISIBLE_DEVICES"], "CUDA_MPS_PIPE_DIRECTORY" in turns) == (UUIDS[0], False)
    site.lab.ask(["scontrol", "requeuehold", str(host)])
    notes = site.home / "run" / "mps.n2"
    wait_on_lab(lambda: not list(notes.glob(f"*/{host}")), "the wide job to leave its set", 60.0)
    wait_on_lab(lambda: site.used().endswith("slot:i3:0(IDX:N/A)"), "its slots to come free")
    pipes = Path(guest["CUDA_MPS_PIPE_DIRECTORY"])
    daemon = json.loads((pipes / "seen").read_text())["pid"]
    assert lives(daemon)
    site.runs(two, one)
    site.lab.ask(["scancel", "--signal=KILL", "--full", str(two)])
    wait_on_lab(lambda: not list((site.home / "mps").iterdir()), "the daemon to end")
    assert not lives(daemon)
    site.lab.ask(["scancel", str(host)])
    site.end_all()
    assert list((site.home / "run").glob("*.share")) == list(notes.iterdir()) == []


def test_a_job_whose_tasks_count_by_its_gpus_keeps_them(site):
    job_id = site.submit("--gpus=2", "--nodes=1", "--ntasks-per-gpu=2")
    asked = site.asked(job_id)
    (answer,) = site.slurm.act([Share(job_id, "gpu", "shared", "n2", "0+1", "", time.time() + 60.0)])
    assert answer.refused == "it asks for tasks per GPU"
    assert site.asked(job_id) == asked
    site.lab.cancel_all()


def test_a_third_job_waits_for_a_slot(site):
    jobs = [site.submit("--gpus=1") for _ in range(3)]
    for job_id in jobs:
        site.share(job_id, "3")
    site.runs(*jobs[:2])
    time.sleep(0.5)
    assert site.state(jobs[2]) == "PENDING"
    site.lab.ask(["scancel", str(jobs[0])])
    site.runs(*jobs[1:])
    site.end_all()


def test_a_job_left_half_way_by_an_earlier_release_never_runs_without_its_gpus_and_is_mended(site):
    job_id = site.submit("--gpus=1")
    half = [f"update jobid={job_id} {words}" for words in HALF]
    site.lab.ask(["scontrol"], input="\n".join(half) + "\n")
    beside = site.submit("--gpus=1")
    site.lab.ask(["scontrol", "update", f"jobid={beside}", "starttime=now"])
    site.runs(beside)
    wait_on_lab(lambda: site.reason(job_id) == "BadConstraints", "Slurm to look at the job", 120.0)
    site.act(next_step(site.asked(job_id), "shared", "gpu", time.time() + 60.0))
    site.act(StartShared(job_id, "0"))
    site.runs(job_id)
    assert site.used().startswith("GresUsed=gpu:0,slot:i0:1(IDX:0),")
    site.end_all()


def test_jobs_whose_slots_are_taken_back_run_on_gpus_of_their_own(site):
    on_its_way, ran = site.submit("--gpus=1"), site.submit("--gres=gpu:2", comment="note")
    site.share(ran, "2+3")
    site.runs(ran)
    site.lab.ask(["scontrol", "requeue", str(ran)])
    site.act(Share(on_its_way, "gpu", "shared", "n2", "0", "", time.time() + 600.0))
    wait_on_lab(lambda: site.state(ran) == "PENDING", "the requeue")
    time.sleep(SETTLE_S)
    site.act(Unshare(on_its_way, "gpu", 1, "", time.time() + 60.0))
    site.act(Unshare(ran, "gpu", 2, "note", time.time() + 60.0))
    site.runs(on_its_way, ran)
    assert [site.asked(job_id).comment for job_id in (on_its_way, ran)] == ["", "note"]
    assert site.used("n1").startswith("GresUsed=gpu:3,")
    nodes = site.slurm.observe().nodes
    assert dict(zip(nodes.name, nodes.gpus_used.tolist(), strict=True)) == {"n1": 3, "n2": 4}
    site.end_all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--gres=slot:i0:1"], "slots are not for users"),
        (["--gres=slot"], "slots are not for users"),
        (["--gres=gpu:1,slot"], "slots are not for users"),
        (["--gres=gpu:1,slot:i0:1"], "slots are not for users"),
        (["--gpus=1", "--partition=shared"], "the partition shared is not for users"),
        (["--gpus=1", "--partition=gpu,shared"], "the partition shared is not for users"),
        (["--gpus=1", "--comment=slurmsched:share=0"], "is not for users"),
    ],
)
def test_users_ask_for_neither_slots_nor_their_partition_nor_the_token(site, options, words):
    done = site.lab.run(["sbatch", "--parsable", *options, "--wrap=true"], user="alice")
    assert done.returncode != 0
    assert words in done.stderr


def test_at_no_moment_of_its_way_does_an_owner_get_gpus_of_others(site):
    jobs = {request: site.submit(request) for request in ("--gpus=1", "--gres=gpu:1")}
    changes = [f"{field}={gres}" for field in FIELDS for gres in ("", "gres:gpu:4", "gres:slot:i3:1", "gres:slot")]
    changes += ["partition=gpu", "reqnodelist=n1", "comment=mine", "numnodes=2"]

    def owner_changes_nothing(job_id: int) -> None:
        before = site.asked(job_id)
        for change in changes:
            said = site.lab.run(["scontrol", "update", f"jobid={job_id}", *change.split()], user="alice")
            assert said.returncode != 0, change
        assert site.lab.run(["scontrol", "update", f"jobid={job_id}", "timelimit=50"], user="alice").returncode == 0
        assert site.asked(job_id) == before

    for request, job_id in jobs.items():
        share = Share(job_id, "gpu", "shared", "n2", "3", "", time.time() + 600.0)
        site.lab.ask(["scontrol"], input=f"{lines(share)[0]}\n")
        owner_changes_nothing(job_id)
        site.act(share)
        owner_changes_nothing(job_id)
        assert site.asked(job_id).request.replace("/", ":") == "gres:slot:i3:1", request
        site.act(StartShared(job_id, "3"))
    site.runs(*jobs.values())
    assert site.used() == "GresUsed=gpu:0,slot:i0:0(IDX:N/A),slot:i1:0(IDX:N/A),slot:i2:0(IDX:N/A),slot:i3:2(IDX:6-7)"
    site.end_all()


@pytest.mark.attack
@pytest.mark.soak
def test_an_owner_who_changes_the_request_all_the_time_keeps_no_gpu(site):
    moved = 0
    for _ in range(10):
        job_id, over = site.submit("--gres=gpu:1"), Event()
        ways = cycle(["trespernode= tresperjob=gres:gpu:1", "tresperjob= trespernode=gres:gpu:1"])

        def change(job_id: int = job_id, over: Event = over, ways: Iterator[str] = ways) -> None:
            while not over.is_set():
                site.lab.run(["scontrol", "update", f"jobid={job_id}", *next(ways).split()], user="alice")

        owners = [Thread(target=change) for _ in range(2)]
        for owner in owners:
            owner.start()
        (answer,) = site.slurm.act([Share(job_id, "gpu", "shared", "n2", "0", "", time.time() + 600.0)])
        over.set()
        for owner in owners:
            owner.join()
        if answer.refused is None:
            site.act(StartShared(job_id, "0"))
            site.runs(job_id)
            assert site.used().startswith("GresUsed=gpu:0,slot:i0:1(IDX:0),")
            moved += 1
        site.lab.cancel_all()
    assert moved


@pytest.mark.attack
def test_a_job_that_root_gave_more_than_its_slots_is_not_let_start_and_has_its_own_gpus_back(site):
    for request in ("--gpus=1", "--gres=gpu:1"):
        job_id = site.submit(request)
        site.act(Share(job_id, "gpu", "shared", "n2", "3", "", time.time() + 600.0))
        site.lab.ask(["scontrol", "update", f"jobid={job_id}", "tresperjob=gres:gpu:4"])
        (answer,) = site.slurm.act([StartShared(job_id, "3")])
        assert "which is not what share=3 says" in answer.refused
        step = next_step(site.asked(job_id), "shared", "gpu", time.time() + 60.0)
        assert step == Unshare(job_id, "gpu", 1, "", step.until_s)
        site.act(step)
        site.runs(job_id)
        assert site.used().startswith("GresUsed=gpu:0,"), request
        assert site.asked(job_id).partition == "gpu"
        site.end_all()


@pytest.mark.attack
def test_a_job_that_slurm_gives_whole_gpus_where_they_are_shared_never_begins(site):
    job_id = site.submit("--gres=gpu:4")
    change = ["scontrol", "update", f"jobid={job_id}", "partition=shared", "starttime=now"]
    wait_on_lab(lambda: site.lab.run(change).returncode == 0, "Slurm to take the change")
    wait_on_lab(lambda: site.state(job_id) not in ("PENDING", "RUNNING", "COMPLETING"), "the job to end", 120.0)
    assert site.state(job_id) in ("FAILED", "CANCELLED")
    output = site.lab.layout.work / f"{job_id}.out"
    assert not output.exists() or "CUDA" not in output.read_text()
    assert not set(site.lab.ask(["sinfo", "-h", "-N", "-o", "%t"]).split()) & {"drain", "drng", "down"}
    assert site.lab.ask(["squeue", "-h", "-o", "%A"]).split() == []


def test_users_do_not_get_there_by_a_change_either(site):
    job_id = site.submit("--gpus=1")
    for change in ("partition=shared", "trespernode=gres:slot:i0:1", "comment=slurmsched:share=0"):
        assert site.lab.run(["scontrol", "update", f"jobid={job_id}", change], user="alice").returncode != 0, change
    site.lab.cancel_all()
