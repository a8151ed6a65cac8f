"""Jobs that share GPUs: which GPUs they see, the one control daemon of a pair, and what a fault leaves behind."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from node_worlds import PROGRAMS, Node, wait_until

from slurmsched.prolog.mps import locked
from slurmsched.prolog.mps_faults import READ_B

CONTROL = Path(__file__).parent / "mps_control.py"
UUIDS = [f"GPU-0000000{number}-1111-2222-3333-444444444444" for number in range(4)]
FAILED, CANCELLED = {"SLURM_JOB_EXIT_CODE": "256"}, {"SLURM_JOB_EXIT_CODE": "15"}
DONE = {"SLURM_JOB_EXIT_CODE": "0"}
WAITS_S = 0.6  #: what prolog and epilog wait at most, on any machine
PYTHON = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable  # one that any user may run


class SharedNode(Node):
    """A node whose driver names four GPUs, and jobs that hold slots of them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        control = self.home / "nvidia-cuda-mps-control"
        (self.home / "control.py").write_text(CONTROL.read_text())
        control.write_text(f'#!/bin/sh\nexec {PYTHON} -I {self.home}/control.py "$@"\n')
        control.chmod(0o755)
        for number, uuid in enumerate(UUIDS):
            information = self.home / "gpus" / f"0000:0{3 - number}:00.0" / "information"
            information.parent.mkdir(parents=True)
            information.write_text(f"Model: \t\t NVIDIA H200\nGPU UUID: \t {uuid}\nDevice Minor: \t {number}\n")
        self.settings |= {
            "MPS": str(control),
            "MPS_DIR": str(self.home / "mps"),
            "GPU_INFO_DIR": str(self.home / "gpus"),
        }
        self.job |= {"SLURM_JOB_UID": str(os.getuid()), "SLURM_JOB_PARTITION": "shared", "SLURM_JOB_GPUS": ""}

    def starts(self, job_id: int, token: str, **changes: str) -> dict[str, str]:
        """Run the prolog of a job with this share token; what its tasks then have in their environment."""
        job = {"SLURM_JOB_ID": str(job_id), "SLURM_JOB_COMMENT": f"note;slurmsched:share={token}"} | changes
        status, waited_s = self.run("prolog", **job)
        assert status == 0
        assert waited_s <= WAITS_S
        done = subprocess.run(
            [self.shell, PROGRAMS / "taskprolog"],
            env=self.environ | job,
            capture_output=True,
            text=True,
            check=True,
        )
        words = (line.split(" ", 1) for line in done.stdout.splitlines())
        return dict(text.split("=", 1) for verb, text in words if verb == "export")

    def ends(self, job_id: int, **changes: str) -> None:
        """Run the epilog of a job, and wait until it has left its set, and the notes of the others tell so."""
        status, waited_s = self.run("epilog", SLURM_JOB_ID=str(job_id), **changes)
        assert status == 0
        assert waited_s <= WAITS_S
        wait_until(lambda: not list(self.run_dir.glob(f"mps.n1/*/{job_id}")), f"job {job_id} to leave")
        with locked(str(self.run_dir / "mps.n1")):  # held by a leave to its end
            pass

    def shaken_now(self, job_id: int) -> None:
        """Give the end of a partner that a job's note tells of this moment, however long ago it was."""
        (path,) = self.run_dir.glob(f"mps.n1/*/{job_id}")
        note = json.loads(path.read_text())
        assert time.time() >= note["shaken"]["at_s"] > 0.0
        note["shaken"]["at_s"] = time.time()
        path.write_text(json.dumps(note))

    def tell(self, pipes: str, command: str) -> None:
        before = self.said(pipes).count(f"done {command}\n")
        (Path(pipes) / "control").write_text(command + "\n")
        wait_until(lambda: self.said(pipes).count(f"done {command}\n") > before, command)

    def said(self, pipes: str) -> str:
        """What the daemon wrote, to its standard output or to its logs."""
        logs = (Path(pipes).parent / "log").iterdir()
        return "".join(log.read_text(errors="replace") for log in logs if log.is_file() and not log.is_symlink())

    def faults(self) -> list[dict[str, object]]:
        """What is in the spool of pairs that failed."""
        return [json.loads(path.read_text()) for path in sorted(self.spool.glob("*.fault"))]

    def controls(self) -> dict[int, list[bytes]]:
        """The words of each control program of this node that runs, by its pid."""
        mark = str(self.home / "mps").encode()
        found = {}
        for process in Path("/proc").iterdir():
            try:
                if process.name.isdigit() and mark in (process / "environ").read_bytes():
                    found[int(process.name)] = (process / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
        return found

    def daemons(self) -> list[int]:
        """Those that are daemons."""
        return [pid for pid, words in self.controls().items() if b"-f" in words]

    def stop_all(self) -> None:
        super().stop_all()
        for pid in self.controls():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def node():
    with tempfile.TemporaryDirectory(prefix="mps-", dir="/tmp") as directory:
        home = Path(directory)
        home.chmod(0o755)  # another user's daemon goes through it
        node = SharedNode(home, home)
        yield node
        node.stop_all()


@pytest.fixture(params=[shell for shell in ("dash", "bash") if shutil.which(shell)])
def each_shell(request, node):
    node.shell = request.param
    return node


def test_a_sharer_sees_its_gpus_and_its_daemon(each_shell):
    node = each_shell
    seen = node.starts(7, "3+1")
    assert seen["CUDA_VISIBLE_DEVICES"] == f"{UUIDS[3]},{UUIDS[1]}"
    assert seen["SLURMSCHED_SHARE"] == "3+1"
    pipes, logs = Path(seen["CUDA_MPS_PIPE_DIRECTORY"]), Path(seen["CUDA_MPS_LOG_DIRECTORY"])
    daemon = json.loads((pipes / "seen").read_text())
    assert daemon["CUDA_VISIBLE_DEVICES"] == seen["CUDA_VISIBLE_DEVICES"]
    assert [path.stat().st_mode & 0o777 for path in (pipes, logs)] == [0o700, 0o700]
    assert "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" not in seen
    assert node.samplers() == []


def test_the_token_limits_threads_and_memory(each_shell):
    node = each_shell
    seen = node.starts(7, "0+1:t60:m20000")
    assert seen["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "60"
    assert seen["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == f"{UUIDS[0]}=20000M,{UUIDS[1]}=20000M"


def test_a_pair_has_one_daemon_from_its_first_sharer_to_its_last(node):
    first, second = node.starts(7, "0"), node.starts(8, "0")
    assert first == second
    assert len(node.daemons()) == 1
    node.ends(7)
    assert len(node.daemons()) == 1
    node.ends(8)
    wait_until(lambda: node.daemons() == [], "the daemon to end")
    wait_until(lambda: list((node.home / "mps").iterdir()) == [], "its directories to go")
    wait_until(lambda: list((node.run_dir / "mps.n1").iterdir()) == [], "the set to go")
    assert list((node.home / "tasks").iterdir()) == []
    assert node.faults() == []


def test_other_gpus_have_a_daemon_of_their_own(node):
    assert node.starts(7, "0")["CUDA_MPS_PIPE_DIRECTORY"] != node.starts(8, "1")["CUDA_MPS_PIPE_DIRECTORY"]
    assert len(node.daemons()) == 2


def demand_that_nothing_is_left(node: SharedNode) -> None:
    wait_until(lambda: node.controls() == {}, "all daemons to end")
    for directory in (node.home / "mps", node.run_dir / "mps.n1", node.home / "tasks"):
        wait_until(lambda directory=directory: list(directory.iterdir()) == [], f"{directory} to be empty")
    assert list(node.run_dir.glob("*.share*")) == []


def test_the_guests_of_a_wide_job_have_its_daemon_and_see_the_gpus_of_their_slots_alone(node):
    host, two, one = node.starts(7, "0+1+2+3"), node.starts(8, "1+2:m20000"), node.starts(9, "0")
    pipes = {seen["CUDA_MPS_PIPE_DIRECTORY"] for seen in (host, two, one)}
    assert json.loads((Path(*pipes) / "seen").read_text())["CUDA_VISIBLE_DEVICES"] == ",".join(UUIDS)
    assert len(node.daemons()) == 1
    assert [seen["CUDA_VISIBLE_DEVICES"] for seen in (two, one)] == [f"{UUIDS[1]},{UUIDS[2]}", UUIDS[0]]
    assert two["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == f"{UUIDS[1]}=20000M,{UUIDS[2]}=20000M"
    node.ends(8)
    assert node.starts(10, "2")["CUDA_MPS_PIPE_DIRECTORY"] in pipes
    for job_id in (10, 9, 7):
        assert len(node.daemons()) == 1
        node.ends(job_id)
    assert node.faults() == []
    demand_that_nothing_is_left(node)


def test_when_a_wide_job_ends_first_its_guest_keeps_the_daemon_and_its_other_gpus_have_one_anew(node):
    pipes, (daemon,) = node.starts(7, "0+1+2+3")["CUDA_MPS_PIPE_DIRECTORY"], node.daemons()
    node.starts(8, "0")
    node.ends(7)
    assert node.daemons() == [daemon]
    assert node.starts(9, "0")["CUDA_MPS_PIPE_DIRECTORY"] == pipes, "beside the guest"
    later = node.starts(10, "1+2+3")["CUDA_MPS_PIPE_DIRECTORY"]
    assert node.starts(11, "3")["CUDA_MPS_PIPE_DIRECTORY"] == later != pipes
    for job_id in (8, 10, 11, 9):
        node.ends(job_id)
    assert node.faults() == []
    demand_that_nothing_is_left(node)


def test_a_job_joins_no_daemon_that_lacks_one_of_its_gpus(node):
    host, guest = node.starts(7, "0+1"), node.starts(8, "1+2")
    assert guest["CUDA_MPS_PIPE_DIRECTORY"] != host["CUDA_MPS_PIPE_DIRECTORY"]
    assert guest["CUDA_VISIBLE_DEVICES"] == f"{UUIDS[1]},{UUIDS[2]}"


def test_of_a_fault_on_a_wide_host_each_job_names_those_on_its_own_gpus(node):
    node.starts(7, "0+1+2+3")
    node.starts(8, "0")
    node.starts(9, "2+3")
    os.kill(node.daemons()[0], signal.SIGKILL)
    for job_id in (9, 7, 8):
        node.ends(job_id)
    wait_until(lambda: len(node.faults()) == 3, "three records")
    named = [(fault["job_id"], fault["with"], fault["gpus"]) for fault in node.faults()]
    assert named == [(7, [8, 9], [0, 1, 2, 3]), (8, [7], [0]), (9, [7], [2, 3])]
    demand_that_nothing_is_left(node)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to start daemons of others")
def test_another_user_has_no_part_in_the_daemon_of_a_wide_job_and_mps_on_the_gpus_that_it_left(node):
    host = node.starts(7, "0+1+2+3", SLURM_JOB_UID="65534")
    assert "CUDA_MPS_PIPE_DIRECTORY" not in node.starts(8, "1", SLURM_JOB_UID="2")
    assert "CUDA_MPS_PIPE_DIRECTORY" not in node.starts(9, "3:time", SLURM_JOB_UID="2")
    assert node.starts(10, "0", SLURM_JOB_UID="65534")["CUDA_MPS_PIPE_DIRECTORY"] == host["CUDA_MPS_PIPE_DIRECTORY"]
    for job_id in (7, 8, 9):
        node.ends(job_id)
    other = node.starts(11, "1+2", SLURM_JOB_UID="2")["CUDA_MPS_PIPE_DIRECTORY"]
    assert other != host["CUDA_MPS_PIPE_DIRECTORY"]
    assert Path(other).stat().st_uid == 2
    node.ends(10)
    node.ends(11)
    demand_that_nothing_is_left(node)


def test_a_fault_is_put_down_for_both_jobs_of_the_pair(node):
    pipes = node.starts(7, "0+2")["CUDA_MPS_PIPE_DIRECTORY"]
    node.starts(8, "0+2")
    node.tell(pipes, "fault")
    node.ends(8)
    node.ends(7)
    wait_until(lambda: len(node.faults()) == 2, "two records")
    told = [(fault["job_id"], fault["with"], fault["gpus"], fault["harm"]) for fault in node.faults()]
    assert told == [(7, [8], [0, 2], "partners"), (8, [7], [0, 2], "partners")]
    assert all(fault["fault"].endswith("Server is handling a fatal GPU error.") for fault in node.faults())


def test_a_fault_is_read_from_the_logs_too_where_a_daemon_writes_such(node):
    control = node.home / "nvidia-cuda-mps-control"
    control.write_text(control.read_text().replace("exec ", "export MPS_TO_FILES=1; exec "))
    pipes = node.starts(7, "0")["CUDA_MPS_PIPE_DIRECTORY"]
    node.starts(8, "0")
    assert (Path(pipes).parent / "log/output.log").read_text() == ""
    node.tell(pipes, "fault")
    node.ends(8)
    node.ends(7)
    wait_until(lambda: len(node.faults()) == 2, "two records")


def test_a_log_that_became_long_is_emptied_once_it_was_read_and_later_faults_are_seen(node):
    pipes = node.starts(7, "0")["CUDA_MPS_PIPE_DIRECTORY"]
    node.starts(8, "0")
    log = Path(pipes).parent / "log/output.log"
    with log.open("ab") as file:
        file.truncate(2 * READ_B)
    node.tell(pipes, "reset")
    node.starts(9, "0")
    assert log.stat().st_size < READ_B
    node.tell(pipes, "fault")
    for job_id in (7, 8, 9):
        node.ends(job_id, **FAILED)
    wait_until(lambda: len(node.faults()) == 3, "three records")
    assert {fault["harm"] for fault in node.faults()} == {"partners"}


@pytest.mark.parametrize("command", ["died", "crashed"])
def test_a_server_that_died_is_a_fault_of_the_pair_whatever_its_status(node, command):
    pipes = node.starts(7, "0")["CUDA_MPS_PIPE_DIRECTORY"]
    node.starts(8, "0")
    node.tell(pipes, command)
    node.ends(8)
    node.ends(7)
    wait_until(lambda: len(node.faults()) == 2, "two records")
    assert {fault["harm"] for fault in node.faults()} == {"partners"}


def test_a_job_that_failed_alone_harmed_nobody_and_its_partner_has_no_record(node):
    pipes = node.starts(7, "0")["CUDA_MPS_PIPE_DIRECTORY"]
    node.starts(8, "0")
    node.tell(pipes, "reset")
    node.ends(7, **FAILED)
    node.starts(9, "0")
    node.ends(8, **DONE)
    node.ends(9, **DONE)
    wait_until(lambda: node.daemons() == [], "the daemon to end")
    (fault,) = node.faults()
    assert (fault["job_id"], fault["with"], fault["harm"]) == (7, [8], "own")
    assert "Worker is in reset" in fault["fault"]


def test_a_job_that_failed_alone_is_known_also_where_its_partner_ended_well_before_it(node):
    pipes = node.starts(7, "0")["CUDA_MPS_PIPE_DIRECTORY"]
    node.starts(8, "0")
    node.tell(pipes, "reset")
    node.ends(8, **DONE)
    node.ends(7, **FAILED)
    wait_until(lambda: len(node.faults()) == 1, "a record")
    (fault,) = node.faults()
    assert (fault["job_id"], fault["with"], fault["harm"]) == (7, [8], "own")


@pytest.mark.parametrize(("first", "second"), [(7, 8), (8, 7)])
def test_two_jobs_that_fail_within_seconds_of_a_fault_failed_together(node, first, second):
    pipes = node.starts(7, "0")["CUDA_MPS_PIPE_DIRECTORY"]
    node.starts(8, "0")
    node.tell(pipes, "reset")
    node.ends(first, **FAILED)
    node.shaken_now(second)
    node.ends(second, **FAILED)
    wait_until(lambda: len(node.faults()) == 2, "two records")
    told = {fault["job_id"]: (fault["with"], fault["harm"]) for fault in node.faults()}
    assert told == {first: ([second], "own"), second: ([first], "partners")}


def test_a_job_whose_partner_was_killed_inside_a_kernel_failed_with_it_and_the_killed_one_has_no_record(node):
    pipes = node.starts(7, "0")["CUDA_MPS_PIPE_DIRECTORY"]
    node.starts(8, "0")
    node.tell(pipes, "killed")
    node.ends(7, **CANCELLED)
    node.ends(8, **FAILED)
    wait_until(lambda: len(node.faults()) == 1, "a record")
    (fault,) = node.faults()
    assert (fault["job_id"], fault["with"], fault["harm"]) == (8, [7], "partners")


def test_two_jobs_that_are_cancelled_together_have_no_record(node):
    pipes = node.starts(7, "0")["CUDA_MPS_PIPE_DIRECTORY"]
    node.starts(8, "0")
    node.tell(pipes, "killed")
    node.ends(7, **CANCELLED)
    node.ends(8, **CANCELLED)
    wait_until(lambda: node.daemons() == [], "the daemon to end")
    assert node.faults() == []


def test_an_end_without_a_fault_leaves_no_record_however_the_job_ended(node):
    pipes = node.starts(7, "0")["CUDA_MPS_PIPE_DIRECTORY"]
    node.starts(8, "0")
    node.tell(pipes, "end")
    node.ends(7, **FAILED)
    node.ends(8, **FAILED)
    wait_until(lambda: node.daemons() == [], "the daemon to end")
    assert node.faults() == []


def test_a_fault_is_delivered_at_once(node):
    munge = node.home / "munge"
    munge.write_text("#!/bin/sh\ncat\n")
    munge.chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as desk:
        desk.settimeout(10.0)
        address = f"127.0.0.1:{desk.getsockname()[1]}"
        node.settings |= {"COLLECTOR": address, "COLLECTOR_USER": "root", "MUNGE": str(munge)}
        node.starts(7, "0")
        node.starts(8, "0")
        os.kill(node.daemons()[0], signal.SIGKILL)
        node.ends(7)
        stream, _ = desk.accept()
        with stream:
            told = json.loads(stream.makefile().readline())
            stream.sendall(b"ok\n")
            wait_until(lambda: not [*node.spool.glob("*.fault")], "the record to go")
    assert (told["job_id"], told["with"]) == (7, [8])


def test_the_death_of_the_daemon_is_a_fault_of_the_pair(node):
    node.starts(7, "0")
    node.starts(8, "0")
    os.kill(node.daemons()[0], signal.SIGKILL)
    node.ends(7)
    node.ends(8)
    wait_until(lambda: len(node.faults()) == 2, "two records")
    assert {fault["fault"] for fault in node.faults()} == {"the control daemon has ended"}


def test_who_came_after_a_fault_is_not_blamed_for_it(node):
    pipes = node.starts(7, "0")["CUDA_MPS_PIPE_DIRECTORY"]
    node.starts(8, "0")
    node.tell(pipes, "fault")
    node.ends(8)
    node.starts(9, "0")
    node.ends(7)
    node.ends(9)
    wait_until(lambda: len(node.faults()) == 2, "two records")
    time.sleep(0.1)
    assert [(fault["job_id"], fault["with"]) for fault in node.faults()] == [(7, [8]), (8, [7])]


def test_who_left_in_peace_is_not_blamed_for_a_later_fault(node):
    pipes = node.starts(7, "0")["CUDA_MPS_PIPE_DIRECTORY"]
    node.tell(pipes, "fault")  # of a job alone
    node.starts(8, "0")
    node.ends(8)
    node.tell(pipes, "fault")  # of one left alone
    node.starts(9, "0")
    node.tell(pipes, "quiet")
    node.ends(9)
    assert node.faults() == []
    node.starts(10, "0")
    node.tell(pipes, "fault")
    node.ends(7)
    node.ends(10)
    wait_until(lambda: len(node.faults()) == 2, "two records")
    assert sorted((fault["job_id"], fault["with"]) for fault in node.faults()) == [(7, [10]), (10, [7])]


def test_records_of_faults_make_room_too(node):
    node.spool.mkdir(mode=0o700)
    old = node.spool / "1.n1.1.json"
    old.write_text("{}")
    os.utime(old, (1, 1))
    node.starts(7, "0")
    node.starts(8, "0")
    os.kill(node.daemons()[0], signal.SIGKILL)
    node.ends(7)
    wait_until(lambda: len(node.faults()) == 1, "a record")
    assert not old.exists()


def test_a_daemon_that_died_is_started_anew_for_the_next_job_and_its_fault_kept(node):
    node.starts(7, "0")
    node.starts(8, "0")
    os.kill(node.daemons()[0], signal.SIGKILL)
    node.ends(8)
    assert "CUDA_MPS_PIPE_DIRECTORY" in node.starts(9, "0")
    assert len(node.daemons()) == 1
    node.ends(7)
    node.ends(9)
    wait_until(lambda: len(node.faults()) == 2, "two records")
    assert [(fault["job_id"], fault["with"]) for fault in node.faults()] == [(7, [8]), (8, [7])]


def test_a_job_alone_on_its_gpus_leaves_no_record_of_its_own_faults(node):
    pipes = node.starts(7, "0")["CUDA_MPS_PIPE_DIRECTORY"]
    node.tell(pipes, "fault")
    node.ends(7)
    wait_until(lambda: node.daemons() == [], "the daemon to end")
    assert node.faults() == []


def test_a_log_that_its_user_made_a_link_is_not_followed(node):
    pipes = Path(node.starts(7, "0")["CUDA_MPS_PIPE_DIRECTORY"])
    node.starts(8, "0")
    secret = node.home / "secret"
    secret.write_text("[2026-11-27 13:18:26.514 Control   687] Server 687 exited with status 1\n")
    (pipes.parent / "log/server.log").symlink_to(secret)
    node.ends(7)
    node.ends(8)
    wait_until(lambda: node.daemons() == [], "the daemon to end")
    assert node.faults() == []
    assert secret.exists()


@pytest.mark.parametrize(
    "settings",
    [{"MPS": "none"}, {"MPS": "/nonexistent/mps"}, {"PYTHON": "/nonexistent/python3"}, {"MPS_DIR": "/proc/nowhere"},
     {"RUN_DIR": "/proc/nowhere"}, {"MPS": "/bin/false"}],
)  # fmt: skip
def test_without_mps_a_sharer_still_has_its_gpus(node, settings):
    node.settings |= settings
    assert node.starts(7, "2") == {"CUDA_VISIBLE_DEVICES": UUIDS[2], "SLURMSCHED_SHARE": "2", "SLURM_GPUS_ON_NODE": "1"}
    node.ends(7)
    assert node.daemons() == []


def test_jobs_that_take_turns_have_no_mps(node):
    assert "CUDA_MPS_PIPE_DIRECTORY" not in node.starts(7, "0:time")


def test_without_uuids_gpus_are_numbered_and_there_is_no_mps(node):
    node.settings["GPU_INFO_DIR"] = "/nonexistent"
    found = node.starts(7, "2+3")
    assert found == {"CUDA_VISIBLE_DEVICES": "2,3", "SLURMSCHED_SHARE": "2+3", "SLURM_GPUS_ON_NODE": "2"}


def test_a_daemon_that_is_slow_delays_no_job_and_is_ended_with_it(node):
    control = node.home / "nvidia-cuda-mps-control"
    control.write_text(control.read_text().replace("exec ", "export MPS_SLOW_S=600; exec "))
    assert "CUDA_MPS_PIPE_DIRECTORY" not in node.starts(7, "0")
    node.run("epilog")
    wait_until(lambda: node.daemons() == [], "the daemon to end")
    wait_until(lambda: not list((node.run_dir / "mps.n1").iterdir()), "the set to go")


def test_where_the_daemons_pid_cannot_be_noted_there_is_no_daemon(node):
    (node.run_dir / f"mps.n1/0.{os.getuid()}/daemon").mkdir(parents=True)
    node.run_dir.chmod(0o700)
    assert "CUDA_MPS_PIPE_DIRECTORY" not in node.starts(7, "0")
    wait_until(lambda: node.daemons() == [], "the daemon to end")
    node.ends(7)
    wait_until(lambda: not list((node.run_dir / "mps.n1").iterdir()), "the set to go")


@pytest.mark.parametrize("token", ["", "x", "0+", "+0", "0++1", "-1", "0:x", "0:t", "0:t6x", "0/../1", "*"])
def test_what_is_no_token_shares_nothing(node, token):
    assert node.starts(7, token) == {}


def test_a_job_that_slurm_gave_whole_gpus_where_they_are_shared_starts_no_task(node):
    for gpus in ({"SLURM_JOB_GPUS": "0,1,2,3"}, {"CUDA_VISIBLE_DEVICES": "0"}):
        for comment in ("slurmsched:share=0", "", "slurmsched:ckpt"):
            job = {"SLURM_JOB_COMMENT": comment, "SLURM_JOB_UID": "1000"} | gpus
            assert node.run("prolog", **job)[0] == 0, "no node is drained for it"
            done = subprocess.run(
                [node.shell, PROGRAMS / "taskprolog"], env=node.environ | job, capture_output=True, text=True
            )
            assert done.returncode == 1
            assert "export CUDA_VISIBLE_DEVICES=NoDevFiles" in done.stdout.splitlines()
            assert "print slurmsched: GPUs of partition shared are shared" in done.stdout.splitlines()
            assert "SLURMSCHED_SHARE=" not in done.stdout
    assert node.daemons() == node.samplers() == []


def test_whole_gpus_elsewhere_and_those_of_root_are_no_business_of_ours(node):
    for job in ({"SLURM_JOB_PARTITION": "gpu", "SLURM_JOB_COMMENT": "slurmsched:noprofile"}, {"SLURM_JOB_UID": "0"}):
        assert node.run("prolog", SLURM_JOB_GPUS="0,1", **job)[0] == 0
        done = subprocess.run([node.shell, PROGRAMS / "taskprolog"], env=node.environ | job, capture_output=True)
        assert (done.returncode, done.stdout) == (0, b"")


def deep(directory: Path, levels: int) -> None:
    """Nest directories below *directory*, deeper than a path can be long, with a file and a link in each."""
    here = os.open(directory, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d" * 100, dir_fd=here)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
        os.symlink("/etc", "link", dir_fd=here)
        below = os.open("d" * 100, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


def test_directories_that_a_user_nests_are_removed_however_deep(node):
    keeps = node.home / "keeps"
    keeps.mkdir()
    (keeps / "file").write_text("mine")
    seen = node.starts(7, "0")
    logs = Path(seen["CUDA_MPS_LOG_DIRECTORY"])
    deep(logs, 3000)
    (logs / "away").symlink_to(keeps)
    (logs / "closed").mkdir(0o000)
    (logs.parent / "pipe" / "wide").mkdir()
    for number in range(300):
        (logs.parent / "pipe" / "wide" / str(number)).mkdir()
    node.ends(7)
    wait_until(lambda: not list((node.home / "mps").iterdir()), "all of it to go")
    assert (keeps / "file").read_text() == "mine"


def test_what_was_left_to_be_removed_goes_with_the_next_job_that_leaves(node):
    node.starts(7, "0")
    left = node.home / "mps" / f"n1.0.{os.getuid()}.1.gone"
    left.mkdir()
    deep(left, 3)
    node.ends(7)
    wait_until(lambda: not list((node.home / "mps").iterdir()), "all of it to go")


def test_a_token_counts_in_the_sharing_partition_alone(node):
    assert node.starts(7, "0", SLURM_JOB_PARTITION="gpu") == {}
    assert not node.run_dir.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to start daemons of others")
def test_the_daemon_is_the_users_own_and_another_user_takes_turns(node):
    first = node.starts(7, "0", SLURM_JOB_UID="65534")
    pipes = Path(first["CUDA_MPS_PIPE_DIRECTORY"])
    assert pipes.stat().st_uid == 65534
    assert json.loads((pipes / "seen").read_text())["uid"] == 65534
    assert "CUDA_MPS_PIPE_DIRECTORY" not in node.starts(8, "0", SLURM_JOB_UID="2")
    assert "CUDA_MPS_PIPE_DIRECTORY" in node.starts(9, "0", SLURM_JOB_UID="65534")
