from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from lab_traces import Traces, host_slurm

from slurmsched.errors import LabError
from slurmsched.lab import Lab, LabSpec, wait_until
from slurmsched.lab.lab import is_there
from slurmsched.lab.processes import Process, stat_of

NOBODY = 65534
GAMES = pwd.getpwnam("games")  # slurmctld 26.05 takes any user without rights for SlurmUser but nobody
PLAIN = LabSpec(nodes=2, accounting=False)
STUBBORN = "trap '' TERM HUP; sleep 600 & setsid -f env -i sleep 600; wait; wait"


def state_of(lab: Lab, job_id: int) -> str:
    return lab.ask(["squeue", "-h", "-j", str(job_id), "-t", "all", "-o", "%T"]).strip()


def test_a_job_gets_its_gpus_and_runs_to_its_end(plain_lab):
    job = plain_lab.submit("--gpus=2", "--output=gpus.out", "--wrap=echo $CUDA_VISIBLE_DEVICES")
    wait_until(lambda: state_of(plain_lab, job) == "COMPLETED", 120.0, "the job to end")
    assert (plain_lab.layout.work / "gpus.out").read_text() == "0,1\n"


def test_sacct_tells_who_ran_what_with_how_many_gpus(lab):
    job = lab.submit("--gpus=1", "--qos=high", "--wrap=true", user="carol")
    fields = ["sacct", "-n", "-P", "-a", "-X", "-j", str(job), "-o", "user,account,qos,state,alloctres"]
    line = wait_until(lambda: re.search(r".*\|high\|COMPLETED\|.*", lab.ask(fields)), 120.0, "sacct to know the end")[0]
    user, account, qos, state, tres = line.split("|")
    assert (user, account, qos, state) == (lab.user("carol"), "bio", "high", "COMPLETED")
    assert "gres/gpu=1" in tres


def test_the_operator_may_order_anothers_job_and_alice_may_not(lab):
    first = lab.submit("--nodes=4", "--exclusive", "--wrap=sleep 6000", user="bob")
    wait_until(lambda: state_of(lab, first) == "RUNNING", 300.0, "the job to occupy all nodes")
    job = lab.submit("--nodes=4", "--exclusive", "--wrap=true", user="bob")
    order = ["scontrol", "update", f"jobid={job}", "SiteFactor=500"]
    assert lab.run(order, user="alice").returncode == 1
    assert lab.run(order, user="operator").returncode == 0
    points = ["sprio", "-h", "-j", str(job), "-o", "%S"]  # lists a job once its priority is calculated
    shown = wait_until(lambda: re.fullmatch(r"\s*(\d+)\s*", lab.ask(points)), 120.0, "sprio to show the job")
    assert int(shown[1]) == 500


def test_a_qos_of_higher_priority_counts_for_more(lab):
    held = [lab.submit("--begin=now+1hour", f"--qos={qos}", "--wrap=true", user="dave") for qos in ("low", "high")]
    low, high = (float(lab.ask(["squeue", "-h", "-j", str(job), "-o", "%p"])) for job in held)
    assert low < high


def test_a_restarted_controller_remembers_its_jobs(plain_lab):
    job = plain_lab.submit("--hold", "--wrap=true")
    plain_lab.restart_controller()
    assert state_of(plain_lab, job) == "PENDING"


@pytest.mark.soak
def test_a_lab_with_nodes_that_are_switched_off_to_save_power_restarts(lab_directory):
    saving = ("SuspendProgram=/bin/true", "ResumeProgram=/bin/true", "SuspendTime=3600", "SuspendTimeout=3")
    with Lab(lab_directory, LabSpec(nodes=2, accounting=False, extra_conf=(*saving, "ResumeTimeout=60"))) as there:
        there.ask(["scontrol", "update", "nodename=n2", "state=power_down_force"])

        def states() -> list[str]:
            return there.ask(["sinfo", "-h", "-N", "-o", "%t"]).split()

        seen: set[str] = set()
        for wanted in ("idle%", "idle~"):
            wait_until(lambda wanted=wanted: seen.update(states()) or wanted in seen, 60.0, f"a node {wanted}")
            there.restart_controller()
            there.wait_for_nodes(30.0)
        assert "idle" in states(), "the other one"


@pytest.mark.parametrize(
    ("state", "there"),
    [("idle", True), ("mix", True), ("idle~", True), ("idle%", True), ("mix!", True), ("idle*", False), ("down", False),
     ("down~", False), ("unk*", False), ("drain", False), ("idle#", False)],
)  # fmt: skip
def test_a_nodeis_there_when_it_answers_or_sleeps(state, there):
    assert is_there(state) is there


def test_a_killed_controller_is_gone_until_it_is_started(plain_lab):
    plain_lab.stop_controller(kill=True)
    assert not plain_lab.status().healthy
    plain_lab.start_controller()
    plain_lab.wait_for_nodes()
    assert plain_lab.status().healthy


def test_a_paused_controller_gives_no_answer_until_it_is_resumed(plain_lab):
    plain_lab.pause_controller()
    try:
        with pytest.raises(LabError, match=r"gave no answer within 0\.5 s"):
            plain_lab.run(["squeue"], timeout_s=0.5)
    finally:
        plain_lab.resume_controller()
    assert plain_lab.ask(["squeue", "-h"]) == ""


def test_slurmdbd_can_be_away_for_a_while(lab):
    lab.stop_slurmdbd()
    try:
        assert lab.run(["sacctmgr", "-n", "show", "cluster"]).returncode != 0
        assert lab.ask(["squeue", "-h"]) == ""
    finally:
        lab.start_slurmdbd()
    assert lab.cluster in lab.ask(["sacctmgr", "-n", "show", "cluster"])


def test_two_labs_live_side_by_side(plain_lab, lab_directory):
    with Lab(lab_directory, PLAIN) as other:
        job = other.submit("--hold", "--job-name=mine", "--wrap=true")
        assert other.ask(["squeue", "-h", "-o", "%j"]).split() == ["mine"]
        assert plain_lab.ask(["squeue", "-h", "-o", "%j"]).split() == []
        assert {*other.manifest.ports.values()}.isdisjoint(plain_lab.manifest.ports.values())
        assert job == 1


def test_down_leaves_nothing_not_even_of_stubborn_jobs_and_of_the_hosts_slurm_everything(lab_directory):
    before = host_slurm()
    lab = Lab(lab_directory, PLAIN)
    lab.up()
    user = "alice" if os.geteuid() == 0 else None
    # NONE would ask su for the environment of a login, which fails now and then (26.05): the job is then held
    job = lab.submit("--gpus=1", "--export=NIL", f"--wrap={STUBBORN}", user=user)
    wait_until(lambda: state_of(lab, job) == "RUNNING", 120.0, "the job to run")
    traces = Traces.of(lab_directory)
    lab.down()
    assert traces.left() == []
    assert host_slurm() == before
    lab.down()


def test_another_process_can_take_the_lab_down(lab_directory):
    lab = Lab(lab_directory, PLAIN)
    lab.up()
    traces = Traces.of(lab_directory)
    program = f"from slurmsched.lab import Lab; Lab({str(lab_directory)!r}).down()"
    lab.run([sys.executable, "-c", program], timeout_s=30)
    assert traces.left() == []


def test_a_recycled_pid_is_never_signalled():
    ours = Process(os.getpid(), started=stat_of(os.getpid()).started - 1)
    assert not ours.send(signal.SIGKILL)


def test_a_directory_that_holds_something_is_refused_and_kept(lab_directory):
    (lab_directory / "thesis.tex").write_text("years of work")
    with pytest.raises(LabError, match="is not empty"):
        Lab(lab_directory, PLAIN).up()
    with pytest.raises(LabError, match="no lab at"):
        Lab(lab_directory).down()
    assert (lab_directory / "thesis.tex").read_text() == "years of work"
    shutil.rmtree(lab_directory)


def test_a_daemon_that_refuses_its_configuration_says_so_and_nothing_stays(lab_directory):
    with pytest.raises(LabError, match=r"slurmctld ended at once; its log ends:(?s:.*)select/none_such"):
        Lab(lab_directory, LabSpec(accounting=False, extra_conf=("SelectType=select/none_such",))).up()
    assert not lab_directory.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_lab_of_another_user_is_not_taken_down_on_his_word(lab_directory):
    (lab_directory / "lab.json").write_text("{}")
    os.chown(lab_directory / "lab.json", NOBODY, NOBODY)
    with pytest.raises(LabError, match="belongs to user 65534"):
        Lab(lab_directory).down()
    shutil.rmtree(lab_directory)


WITHOUT_ROOT = """
import sys
from slurmsched.lab import Lab, LabSpec, wait_until
from slurmsched.lab.lab import is_there
with Lab(sys.argv[1], LabSpec(nodes=2, accounting=False)) as lab:
    job = lab.submit("--gpus=1", "--wrap=id -u; echo $CUDA_VISIBLE_DEVICES")
    out = lab.layout.work / f"slurm-{job}.out"
    print(wait_until(lambda: out.exists() and out.read_text().count(chr(10)) == 2 and out.read_text(), 120.0, "output"))
"""


def as_games(*argv):
    """Run *argv* without root; none when that user may not even start it."""
    environment = {"PYTHONPATH": str(Path(__file__).parents[2]), "PATH": os.environ["PATH"]}
    try:
        return subprocess.run(
            argv,
            user=GAMES.pw_uid,
            group=GAMES.pw_gid,
            extra_groups=[],
            cwd="/",
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
    except PermissionError:
        return None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
def test_without_root_everything_runs_as_the_caller(lab_directory):
    usable = "import sys, slurmsched.lab; assert sys.version_info >= (3, 11)"
    tried = {python: as_games(python, "-c", usable) for python in (sys.executable, "/usr/bin/python3")}
    python = next((python for python, done in tried.items() if done and done.returncode == 0), None)
    if python is None:
        pytest.skip(f"games can run slurmsched.lab with none of {', '.join(tried)}")
    os.chown(lab_directory, GAMES.pw_uid, GAMES.pw_gid)
    done = as_games(python, "-c", WITHOUT_ROOT, str(lab_directory))
    assert done.stdout.split() == [str(GAMES.pw_uid), "0"], done.stderr
    assert not lab_directory.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="mount and chroot need root")
def test_the_slurm_of_another_root_tree_runs_on_a_tree_that_stays_as_it_was(lab_directory):
    # The host's own tree is one that is always there.
    lab = Lab(lab_directory, LabSpec(nodes=1, accounting=False, slurm_root="/"))
    lab.up()
    traces = Traces.of(lab_directory)
    job = lab.submit(
        "--gpus=1", "--output=inside.out", "--wrap=stat -f -c %T /; touch /etc/written-by-lab", user="alice"
    )
    lab.ask(["touch", "/etc/written-by-lab"])
    wait_until(lambda: state_of(lab, job) in ("COMPLETED", "FAILED"), 120.0, "the job to end")
    assert (lab.layout.work / "inside.out").read_text().startswith("overlayfs")
    lab.down()
    assert traces.left() == []
    assert not Path("/etc/written-by-lab").exists()


def test_a_lab_is_up_without_waiting_for_long(lab_directory):
    began = time.monotonic()
    with Lab(lab_directory, LabSpec(accounting=False)):
        assert time.monotonic() - began < 30, "on a machine that is busy with other labs"
