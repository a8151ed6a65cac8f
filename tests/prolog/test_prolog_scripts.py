"""Prolog, epilog and taskprolog: they start and stop the sampler, and never trouble Slurm."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from node_worlds import PROGRAMS, Node, wait_until

SHELLS = [shell for shell in ("dash", "bash", "busybox") if shutil.which(shell)]

#: What prolog and epilog wait at most, on any machine.
WAITS_S = 0.6
#: Beyond this something hangs; a machine may be busy.
HANGS_S = 60.0


@pytest.fixture(params=["dash", "bash"])
def each_shell(request, node):
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    node.shell = request.param
    return node


def started(node: Node, **changes: str) -> int:
    assert node.run("prolog", **changes)[0] == 0
    wait_until(lambda: node.sampler() is not None, "the sampler to begin")  # the shell that starts it comes first
    pid = node.sampler()
    assert pid is not None
    return pid


def harmless(node: Node, program: str, **changes: str) -> None:
    """Run *program*: whatever the node is like, Slurm is told all is well, soon."""
    status, waited_s = node.run(program, **changes)
    assert status == 0
    assert waited_s <= WAITS_S


@pytest.mark.parametrize("program", ["prolog", "epilog", "taskprolog", "node.sh"])
@pytest.mark.parametrize("shell", SHELLS)
def test_the_scripts_are_plain_shell(program, shell):
    argv = [shell, "sh"] if shell == "busybox" else [shell]
    subprocess.run([*argv, "-n", PROGRAMS / program], check=True)


@pytest.mark.parametrize("program", ["prolog", "epilog", "taskprolog"])
def test_slurm_may_run_them_as_they_are(program):
    assert os.access(PROGRAMS / program, os.X_OK)
    assert (PROGRAMS / program).read_text().startswith("#!/bin/sh\n")


def test_a_job_is_measured_from_prolog_to_epilog(each_shell):
    node = each_shell
    pid = node.measured()
    assert os.getsid(pid) == pid
    harmless(node, "epilog")
    wait_until(lambda: bool(node.files()), "the record")
    (record,) = node.records()
    assert (record["job_id"], len(record["gpus"])) == (7, 2)
    wait_until(lambda: node.samplers() == [], "all programs to end")
    assert list(node.run_dir.iterdir()) == []


def test_the_sampler_outlives_the_prolog_every_time(node):
    for job_id in range(100, 115):
        node.job["SLURM_JOB_ID"] = str(job_id)
        started(node)
    assert len(node.samplers()) == 15


def test_a_prolog_that_runs_twice_starts_one_sampler(node):
    first = started(node)
    assert started(node) == first
    assert node.samplers() == [first]


def test_a_second_run_of_a_job_has_a_sampler_of_its_own(node):
    first = node.measured()
    node.run("epilog")
    node.job["SLURM_JOB_RESTART_COUNT"] = "1"
    time.sleep(1.0)  # a start is known by its second
    assert node.measured() != first
    node.run("epilog")
    wait_until(lambda: len(node.files()) == 2, "two records")
    assert sorted(record["restart"] for record in node.records()) == [0, 1]


def test_nodes_that_share_a_machine_do_not_mix(node):
    started(node)
    node.job["SLURMD_NODENAME"] = "n2"
    node.run("prolog")
    assert len(node.samplers()) == 2
    node.run("epilog")
    wait_until(lambda: len(node.samplers()) == 1, "the sampler of n2 to end")
    assert node.sampler() is not None


@pytest.mark.parametrize(
    "comment",
    [
        "slurmsched:noprofile",
        "slurmsched:off",
        "for the paper; slurmsched:ckpt,noprofile",
        "slurmsched:ckpt slurmsched:nopack,noprofile;x",
        "slurmsched:a\nslurmsched:noprofile\tx",
    ],
)
def test_who_does_not_want_a_profile_gets_none(node, comment):
    harmless(node, "prolog", SLURM_JOB_COMMENT=comment)
    assert node.samplers() == []


@pytest.mark.parametrize(
    "comment",
    [
        "noprofile",
        "slurmsched:ckpt noprofile",
        "xslurmsched:noprofile",
        "slurmsched:noprofiles",
        "$(exit 1)`false`*",
        "",
    ],
)
def test_all_others_get_one(node, comment):
    started(node, SLURM_JOB_COMMENT=comment)


@pytest.mark.parametrize("gpus", ["", "NoDevFiles"])
def test_a_job_without_gpus_is_left_alone(node, gpus):
    harmless(node, "prolog", SLURM_JOB_GPUS=gpus, CUDA_VISIBLE_DEVICES=gpus)
    assert node.samplers() == []
    assert not node.run_dir.exists()


@pytest.mark.parametrize(
    "job", [{"SLURM_JOB_ID": ""}, {"SLURM_JOB_ID": "7/../8"}, {"SLURMD_NODENAME": "../n1"}, {"SLURMD_NODENAME": ""}]
)
def test_what_is_no_job_or_node_is_left_alone(node, job):
    for program in ("prolog", "epilog", "taskprolog"):
        harmless(node, program, **job)
    assert node.samplers() == []


def test_an_nvml_that_hangs_delays_nothing(each_shell):
    node = each_shell
    node.script("0 * init hang:60\n")
    harmless(node, "prolog")
    harmless(node, "epilog")
    wait_until(lambda: node.samplers() == [], "the sampler to end")
    assert node.files() == []


def test_a_python_that_hangs_delays_nothing_and_is_ended(node):
    python = node.home / "python"
    python.write_text("#!/bin/sh\ntrap '' TERM\nexec sleep 600\n")
    python.chmod(0o755)
    node.settings["PYTHON"] = str(python)
    harmless(node, "prolog")
    harmless(node, "epilog")


@pytest.mark.parametrize("program", ["prolog", "epilog", "taskprolog"])
def test_settings_that_hang_delay_nothing_and_leave_slurm_no_open_pipe(each_shell, program):
    settings = each_shell.home / "hanging.conf"
    os.mkfifo(settings)
    harmless(each_shell, program, SLURMSCHED_NODE_CONF=str(settings), CUDA_VISIBLE_DEVICES="0")


@pytest.mark.parametrize("python", ["/nonexistent/python3", "/etc/passwd", "/bin/false"])
def test_without_python_nothing_happens(each_shell, python):
    node = each_shell
    node.settings["PYTHON"] = python
    for program in ("prolog", "epilog", "taskprolog"):
        harmless(node, program)
    assert (node.samplers(), node.files()) == ([], [])


@pytest.mark.parametrize("setting", ["RUN_DIR", "TASK_DIR", "SPOOL_DIR"])
def test_a_directory_that_cannot_be_made_delays_nothing(node, setting):
    node.settings[setting] = "/proc/nowhere"
    harmless(node, "prolog")
    time.sleep(0.2)
    harmless(node, "epilog")
    wait_until(lambda: node.samplers() == [], "the sampler to end")


def test_a_full_disk_delays_nothing(node):
    node.settings["SPOOL_DIR"] = "/dev/full"
    node.measured()
    harmless(node, "epilog")
    wait_until(lambda: node.samplers() == [], "the sampler to end")


def test_where_the_pid_cannot_be_noted_there_is_no_sampler(node):
    node.run_dir.mkdir(mode=0o700)
    (node.run_dir / "7.n1.pid").mkdir()
    (node.run_dir / "7.n1.pid" / "x").mkdir()
    (node.run_dir / "7.n1.pid.new").mkdir()
    harmless(node, "prolog")
    wait_until(lambda: node.samplers() == [], "the sampler to end")


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o777])
def test_a_run_directory_open_to_others_is_not_used(node, mode):
    node.run_dir.mkdir()
    node.run_dir.chmod(mode)
    harmless(node, "prolog")
    assert node.samplers() == []


def test_a_link_in_place_of_the_run_directory_is_not_followed(node):
    elsewhere = node.home / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    node.run_dir.symlink_to(elsewhere)
    harmless(node, "prolog")
    assert list(elsewhere.iterdir()) == []


def test_without_the_other_files_nothing_happens(node, tmp_path):
    for program in ("prolog", "epilog", "taskprolog"):
        alone = tmp_path / program
        shutil.copy(PROGRAMS / program, alone)
        done = subprocess.run([alone], env=node.environ, capture_output=True, timeout=HANGS_S, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_link_to_a_script_finds_the_others(node, tmp_path):
    link = tmp_path / "50-slurmsched"
    link.symlink_to(PROGRAMS / "prolog")
    subprocess.run([link], env=node.environ, timeout=HANGS_S, check=True)
    assert node.sampler() is not None


def test_a_settings_file_that_is_nonsense_changes_nothing(node):
    environ = node.environ
    conf = Path(environ["SLURMSCHED_NODE_CONF"])
    conf.write_text('PYTHON=/bin/false\n`touch /tmp/x`\n$(exit 3)\n"\n(((\nIFS=x\nPATH=/nowhere\n=\n' + "x" * 5000)
    done = subprocess.run([PROGRAMS / "prolog"], env=environ, capture_output=True, timeout=HANGS_S, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_the_environment_has_the_last_word(node):
    node.settings["PYTHON"] = "/bin/false"
    started(node, SLURMSCHED_PYTHON=sys.executable)


def test_the_epilog_stops_no_stranger(node):
    stranger = subprocess.Popen(["sleep", "60"])
    try:
        node.run_dir.mkdir(mode=0o700)
        node.pid_file.write_text(f"{stranger.pid} 1\n")
        harmless(node, "epilog")
        assert stranger.poll() is None
        assert not node.pid_file.exists()
    finally:
        stranger.kill()
        stranger.wait()


def test_an_epilog_without_a_prolog_is_fine(node):
    harmless(node, "epilog")


@pytest.mark.soak
def test_a_sampler_that_ignores_the_epilog_is_killed(node):
    pid = started(node)
    os.kill(pid, signal.SIGSTOP)
    harmless(node, "epilog")
    wait_until(lambda: node.samplers() == [], "the sampler to be killed", timeout_s=120.0)


def task_says(node: Node, **changes: str) -> str:
    done = subprocess.run(
        [PROGRAMS / "taskprolog"],
        env=node.environ | changes,
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout


def test_a_task_learns_that_its_job_is_measured(node):
    assert task_says(node) == ""
    started(node)
    assert task_says(node) == "export SLURMSCHED_PROFILE=1\n"
    assert task_says(node, SLURM_JOB_ID="8") == ""
    node.run("epilog")
    assert task_says(node) == ""


def test_every_setting_is_in_the_example_and_on_a_page():
    known = re.search(r"case \$key in\n(.*?)\)\n", (PROGRAMS / "node.sh").read_text(), re.DOTALL)
    assert known is not None
    settings = set(re.findall(r"[A-Z_]{3,}", known[1]))
    root = PROGRAMS.parents[1]
    example = dict(re.findall(r"^#([A-Z_]+)=(.*)$", (root / "contrib/node.conf").read_text(), re.MULTILINE))
    assert set(example) == settings
    for setting, default in example.items():
        assert f"{{SLURMSCHED_{setting}:={default}}}" in (PROGRAMS / "node.sh").read_text()
        assert any(f"`{setting}`" in (root / f"docs/{page}.md").read_text() for page in ("profiling", "sharing"))


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root to become a user")
def test_a_user_can_read_what_is_left_for_tasks_and_nothing_else(node):
    started(node)
    tasks = Path(node.settings["TASK_DIR"])
    assert (tasks.stat().st_mode & 0o777, node.run_dir.stat().st_mode & 0o777) == (0o755, 0o700)
    assert [path.stat().st_mode & 0o777 for path in tasks.iterdir()] == [0o644]
    assert node.pid_file.stat().st_mode & 0o777 == 0o600
