"""Two jobs on the same GPUs: whether their load keeps its level is watched, and told once where it does not."""

from __future__ import annotations

import json
import socket
import threading
import time
from pathlib import Path

import pytest
from node_worlds import PROGRAMS, Node, patient_path, wait_until

from slurmsched.daemon.profiles.fault_record import delivery_of
from slurmsched.daemon.profiles.profile_record import opened
from slurmsched.prolog.sampler import BLOCK
from slurmsched.prolog.watch import BLOCKS_MOST, FULL, SETTLING, SharedLoad

#: Jumps between two levels after more samples than a block has.
JUMPS = "".join(f"#{at * BLOCK * 3 // 2} * util {90 if at % 2 else 10}/10\n" for at in range(200))
STEADY = "0 * gpus 2\n0 * memory 9000\n0 * processes 2\n0 * util 50/10\n"


@pytest.fixture
def shared(node: Node) -> Node:
    node.job |= {"SLURM_JOB_PARTITION": "shared", "SLURM_JOB_GPUS": ""}
    node.settings |= {"MPS": "none", "GPU_INFO_DIR": "/nonexistent", "EVERY_S": "0.01"}
    node.script(STEADY + JUMPS)
    return node


def starts(node: Node, job_id: int, token: str, **changes: str) -> None:
    assert (
        node.run("prolog", SLURM_JOB_ID=str(job_id), SLURM_JOB_COMMENT=f"slurmsched:share={token}", **changes)[0] == 0
    )


def ends(node: Node, job_id: int) -> None:
    assert node.run("epilog", SLURM_JOB_ID=str(job_id))[0] == 0


def word_of(node: Node) -> Path:
    """The one word in the spool, when it is there."""
    wait_until(lambda: bool(list(node.spool.glob("*.unstable"))), "a word")
    (path,) = node.spool.glob("*.unstable")
    return path


def watched(node: Node) -> None:
    """Wait until whoever watches has asked NVML."""
    wait_until(node.began.exists, "somebody to watch")


def test_a_load_that_jumps_is_told_once_by_who_came_later(shared):
    starts(shared, 7, "0+1", SLURM_JOB_RESTART_COUNT="2")
    time.sleep(0.1)
    assert shared.samplers() == [], "nobody watches a job that is alone"
    starts(shared, 8, "0+1:time")
    path = word_of(shared)
    wait_until(lambda: shared.samplers() == [], "the watcher to end")
    word = json.loads(path.read_text())
    assert path.name == f"8.n1.{word['start_s']}.unstable"
    told = delivery_of(opened(path.read_bytes()), time.time())
    assert (told.job_id, told.restart, told.node, told.gpus) == (8, 0, "n1", (0, 1))
    assert (told.partners, told.partner_restarts) == ((7,), (2,))
    assert "utilisation of GPU-0: " in told.why
    assert word["uid"] == 1000
    page = (PROGRAMS.parents[1] / "docs/sharing.md").read_text()
    assert all(f"`{name}`" in page for name in word)
    ends(shared, 8)
    ends(shared, 7)
    assert shared.files() == [path.name], "no profile is written of jobs that share"
    assert list(shared.run_dir.iterdir()) == []


def test_a_word_is_delivered_at_once_and_again_until_it_is_taken(shared):
    munge = shared.home / "munge"
    munge.write_text("#!/bin/sh\ncat\n")
    munge.chmod(0o755)
    shared.script("0 * gpus 1\n0 * memory 80000\n")
    with socket.create_server(("127.0.0.1", 0)) as desk:
        desk.settimeout(20.0)
        address = f"127.0.0.1:{desk.getsockname()[1]}"
        shared.settings |= {"COLLECTOR": address, "COLLECTOR_USER": "root", "MUNGE": str(munge)}
        starts(shared, 7, "0")
        starts(shared, 8, "0")
        for answer in (b"later: the daemon is busy\n", b"ok\n"):
            stream, _ = desk.accept()
            with stream:
                told = json.loads(stream.makefile().readline())
                stream.sendall(answer)
        wait_until(lambda: shared.files() == [] == shared.samplers(), "the word to go")
    assert (told["job_id"], told["with"]) == (8, [7])
    assert told["unstable"] == "80000 MiB of GPU-0 were used, more than 77824"


def test_through_mps_two_jobs_are_judged_though_only_its_server_uses_the_gpu_itself(shared):
    shared.script(STEADY.replace("processes 2", "processes 1/900000\n0 * clients 2/900001") + JUMPS)
    starts(shared, 7, "0")
    starts(shared, 8, "0")
    assert "utilisation of GPU-0: " in json.loads(word_of(shared).read_text())["unstable"]


def test_of_two_that_start_at_the_same_moment_one_watches(shared):
    home = shared.home / "slow"
    home.mkdir()
    path = patient_path(home, 4.0)
    slow = home / "bin/mv"
    waits = 'until [ -e "$0.go" ]; do sleep 0.02; done'
    slow.write_text(f'#!/bin/sh\ncase $1 in *.share.new) : >"$0.began"; {waits} ;; esac\nexec /bin/mv "$@"\n')
    slow.chmod(0o755)
    first = threading.Thread(target=starts, args=(shared, 7, "0"), kwargs={"PATH": path})
    first.start()
    wait_until((home / "bin/mv.began").exists, "the first to put down its name")
    starts(shared, 8, "0")
    (home / "bin/mv.go").touch()
    first.join()
    assert json.loads(word_of(shared).read_text())["job_id"] == 7, "it was seen last"


def test_limits_of_both_say_what_a_pair_may_take(shared):
    shared.script("0 * gpus 1\n0 * memory 9000\n")
    starts(shared, 7, "0:m4000")
    starts(shared, 8, "0:m4500")
    assert json.loads(word_of(shared).read_text())["unstable"] == "9000 MiB of GPU-0 were used, more than 8500"


def test_who_watches_ends_with_its_job_or_when_it_is_alone(shared):
    shared.script(STEADY)
    for last in (8, 7):
        starts(shared, 7, "0")
        starts(shared, 8, "0")
        watched(shared)
        assert len(shared.samplers()) == 1
        ends(shared, last)
        wait_until(lambda: shared.samplers() == [], "the watcher to end")
        ends(shared, 15 - last)
        shared.began.unlink()
    assert shared.files() == []


def test_jobs_on_other_gpus_or_other_nodes_are_no_partners(shared):
    starts(shared, 7, "0")
    starts(shared, 8, "1")
    starts(shared, 9, "0", SLURMD_NODENAME="n2")
    starts(shared, 10, "0", SLURMD_NODENAME="x.n2")
    wait_until(lambda: shared.samplers() == [], "all watchers to end")
    assert not shared.began.exists(), "NVML is not even asked"


@pytest.mark.parametrize("changes", [{"PYTHON": "/nonexistent"}, {"RUN_DIR": "/proc/nowhere"}])
def test_where_nobody_can_watch_jobs_share_all_the_same(shared, changes):
    shared.settings |= changes
    starts(shared, 7, "0")
    starts(shared, 8, "0")
    assert "SLURMSCHED_SHARE=0" in (shared.home / "tasks/8.n1.env").read_text()
    assert shared.samplers() == []


def test_without_nvml_nothing_is_told(shared):
    shared.nvml = shared.home
    starts(shared, 7, "0")
    starts(shared, 8, "0")
    wait_until(lambda: shared.samplers() == [], "the watcher to end")
    assert shared.files() == []


def note(load: SharedLoad, blocks: int, levels: tuple[float, ...], processes: float = 2.0) -> str:
    """What the watcher says of so many blocks, of each level in turn."""
    for at in range(blocks * BLOCK):
        said = load.note({"gpu_util": levels[at // BLOCK % len(levels)], "processes": processes, "memory_mib": 1.0})
        if said:
            return said
    return ""


def test_a_partner_that_comes_or_goes_is_no_instability():
    load = SharedLoad("GPU-0", 8000.0)
    assert note(load, 10, (20.0,), processes=1.0) == ""
    assert note(load, 10, (90.0,)) == ""
    assert note(load, 10, (20.0,), processes=1.0) == ""
    assert note(load, 10, (50.0,), processes=3.0) == ""


def test_one_job_alone_on_the_gpu_is_not_judged():
    assert note(SharedLoad("GPU-0", 8000.0), 30, (10.0, 90.0), processes=1.0) == ""


def test_the_time_in_which_jobs_settle_does_not_count():
    load = SharedLoad("GPU-0", 8000.0)
    assert note(load, SETTLING // BLOCK, (0.0, 100.0)) == ""
    assert note(load, 3 * BLOCKS_MOST, (60.0,)) == ""


def test_a_pair_that_was_steady_for_long_is_watched_as_closely():
    load = SharedLoad("GPU-0", 8000.0)
    assert note(load, 10 * BLOCKS_MOST + SETTLING // BLOCK, (60.0,)) == ""
    assert note(load, 5, (10.0, 90.0)).startswith("utilisation of GPU-0: ")


def test_memory_is_judged_at_once():
    assert (
        SharedLoad("GPU-0", FULL * 80_000).note({"memory_mib": 77_000.0})
        == "77000 MiB of GPU-0 were used, more than 76000"
    )


@pytest.mark.soak
def test_watching_eight_gpus_takes_less_than_a_thousandth_of_a_core(shared, capsys):
    shared.settings["EVERY_S"] = "1"
    shared.script(STEADY.replace("gpus 2", "gpus 8") + "0 * clients 0\n")
    starts(shared, 7, "0+1+2+3+4+5+6+7")
    starts(shared, 8, "0+1+2+3+4+5+6+7")
    watched(shared)
    (pid,) = shared.samplers()

    def cpu_s() -> float:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100.0

    time.sleep(2.0)
    before_s = cpu_s()
    time.sleep(120.0)
    share = (cpu_s() - before_s) / 120.0
    with capsys.disabled():
        print(f"\nwatching 8 GPUs at 1 Hz: {100 * share:.3f} % of a core")
    assert share <= 0.001
