"""The helper in a job's script: asked to stop, it stops in good order, on all ranks after the same iteration."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from slurmsched.cluster.text.comment import parse
from slurmsched.job import AGAIN_S, REPORT_S, SIGNALS, Lease, Meter, Reporter, with_progress

FILE = Path(__file__).parent.parent / "slurmsched/job.py"

RANK = """
import sys, time
sys.path.insert(0, {folder!r})
from job import Lease
lease = Lease(sys.argv[1], ranks=2)
step = lease.resume_at()
print("ready", flush=True)
while True:
    time.sleep(0.01)
    if lease.should_stop(step):
        break
    step += 1
if sys.argv[2] == "0":
    lease.checkpoint_done(step + 1)
print(step)
"""


@pytest.fixture
def alone(tmp_path):
    """The helper copied to where no slurmsched is."""
    (tmp_path / "job.py").write_text(FILE.read_text())
    return tmp_path


@pytest.fixture
def inside(alone):
    """The environment of job 77, and a Slurm that notes what it is asked and ends the run of who asks for a requeue."""
    scontrol = alone / "bin/scontrol"
    scontrol.parent.mkdir()
    scontrol.write_text(f'#!/bin/sh\necho "$@" >> {alone}/asked\n[ -e {alone}/deaf ] || kill -TERM $PPID\n')
    scontrol.chmod(0o755)
    write(alone / "bin/squeue", "exit 1")
    return os.environ | {"SLURM_JOB_ID": "77", "SLURM_NTASKS": "1", "PATH": f"{scontrol.parent}:{os.environ['PATH']}"}


def write(path, script):
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def start(*argv, cwd=None, env=None):
    command = [sys.executable, "-I", *map(str, argv)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=cwd, env=env)


def test_all_ranks_stop_after_the_same_iteration_when_one_is_asked(alone):
    shared = alone / "shared"
    (alone / "rank.py").write_text(RANK.format(folder=str(alone)))
    ranks = [start(alone / "rank.py", shared, number) for number in range(2)]
    for rank in ranks:
        assert rank.stdout.readline() == "ready\n"
    time.sleep(0.2)
    ranks[1].send_signal(signal.SIGUSR1)
    steps = [int(rank.communicate(timeout=90)[0]) for rank in ranks]
    # These two do not wait for each other, as training does: one may have passed the iteration already.
    assert min(steps) > 0
    last = int(next(shared.glob("last.*")).read_text())
    assert all(step >= last for step in steps)
    assert last in steps
    assert int((shared / "resume").read_text()) == steps[0] + 1


TRAINING = """
import sys, time
sys.path.insert(0, {folder!r})
from job import Lease
lease = Lease(sys.argv[1])
for step in range(lease.resume_at(), 1000):
    time.sleep(0.01)
    if step == lease.resume_at() + 5:
        print("ready", flush=True)
    if lease.should_stop(step):
        lease.checkpoint_done(step + 1)
        print("saved", step, flush=True)
        if lease.give_way(patience_s=0.3):
            break
        print("goes on", step + 1, flush=True)
print("left", flush=True)
"""


def test_a_job_that_is_asked_saves_queues_itself_again_and_leaves_when_its_run_ends(alone, inside):
    (alone / "train.py").write_text(TRAINING.format(folder=str(alone)))
    training = start(alone / "train.py", alone / "d", env=inside)
    assert training.stdout.readline() == "ready\n"
    training.send_signal(signal.SIGURG)
    saved, left = training.communicate(timeout=90)[0].splitlines()
    assert (alone / "asked").read_text() == "requeue incomplete 77\n"
    assert left == "left"
    assert int((alone / "d/resume").read_text()) == int(saved.split()[1]) + 1


def test_a_job_that_nobody_ends_goes_on_with_the_next_iteration_and_can_be_asked_again(alone, inside):
    (alone / "train.py").write_text(TRAINING.format(folder=str(alone)))
    (alone / "deaf").touch()
    training = start(alone / "train.py", alone / "d", env=inside)
    assert training.stdout.readline() == "ready\n"
    for _ in range(2):
        training.send_signal(signal.SIGURG)
        step = int(training.stdout.readline().removeprefix("saved"))
        assert int(training.stdout.readline().removeprefix("goes on")) == step + 1
    training.send_signal(signal.SIGTERM)
    assert training.communicate(timeout=90)[0].splitlines()[-1] == "left"


@pytest.fixture
def commented(alone, inside):
    """The same job, whose comment is a file, and what it was when the job asked for a requeue."""
    (alone / "comment").write_text("slurmsched:ckpt,iterations=9000")
    write(alone / "bin/squeue", f"cat {alone}/comment")
    keeps = f'echo "${{3#comment=}}" > {alone}/comment; echo x >> {alone}/written'
    queues = f"cp {alone}/comment {alone}/queued"
    write(alone / "bin/scontrol", f'if [ "$1" = update ]; then {keeps}; else {queues}; fi')
    return inside


def test_a_job_that_queues_itself_again_says_what_is_done_and_takes_it_back_where_it_goes_on(alone, commented):
    (alone / "train.py").write_text(TRAINING.format(folder=str(alone)))
    (alone / "d").mkdir()
    (alone / "d/resume").write_text("100")
    training = start(alone / "train.py", alone / "d", env=commented)
    assert training.stdout.readline() == "ready\n"
    training.send_signal(signal.SIGURG)
    step = int(training.stdout.readline().removeprefix("saved"))
    assert int(training.stdout.readline().removeprefix("goes on")) == step + 1
    training.kill()
    training.communicate(timeout=90)
    assert parse((alone / "queued").read_text().strip()).done == step + 1
    assert parse((alone / "comment").read_text().strip()).done == 100
    assert len((alone / "written").read_text().splitlines()) == 2


def test_the_shell_form_says_what_is_done_only_where_the_job_was_asked(alone, commented):
    def done(iteration):
        command = [alone / "job.py", "done", "--dir", alone, "--iteration", iteration]
        start(*command, env=commented).communicate(timeout=90)
        return parse((alone / "comment").read_text().strip()).done

    assert done(70) is None
    (alone / "stop.77.0").touch()
    assert done(80) == 80


def test_the_shell_form_queues_the_job_again_where_the_command_has_saved_its_work(alone, inside):
    done = f"{sys.executable} -I {alone}/job.py done --dir {alone}/d --iteration 8"
    script = f"trap '{done}; exit 0' URG; echo ready; while :; do sleep 0.05; done"
    running = start(alone / "job.py", "run", "--dir", alone / "d", "--", "sh", "-c", script, env=inside)
    assert running.stdout.readline() == "ready\n"
    running.send_signal(signal.SIGURG)
    running.communicate(timeout=90)
    assert running.returncode == 0
    assert (alone / "asked").read_text() == "requeue incomplete 77\n"
    assert (alone / "d/resume").read_text() == "8"


def test_the_shell_form_takes_back_what_is_done_where_it_starts_the_command_again(alone, commented):
    done = f"{sys.executable} -I {alone}/job.py done --dir {alone}/d --iteration 108"
    script = f"trap '{done}; exit 0' URG; echo $(cat {alone}/comment); while :; do sleep 0.05; done"
    call = f"import sys; from pathlib import Path; sys.path.insert(0, {str(alone)!r}); from job import run; "
    (alone / "d").mkdir()
    (alone / "d/resume").write_text("100")
    (alone / "run.py").write_text(f"{call}run(Path({str(alone / 'd')!r}), sys.argv[1:], patience_s=0.1)\n")
    running = start(alone / "run.py", "sh", "-c", script, env=commented)
    assert parse(running.stdout.readline().strip()).done is None
    running.send_signal(signal.SIGURG)
    assert parse(running.stdout.readline().strip()).done == 100
    running.send_signal(signal.SIGTERM)
    running.communicate(timeout=90)
    assert parse((alone / "queued").read_text().strip()).done == 108


def test_the_shell_form_begins_where_somebody_elses_file_says_nothing(alone):
    (alone / "resume").mkdir()
    running = start(alone / "job.py", "run", "--dir", alone, "--", "echo", "ran")
    assert running.communicate(timeout=90)[0] == "ran\n"


def test_the_shell_form_leaves_a_command_alone_that_was_done_when_it_was_asked(alone, inside):
    script = "trap 'exit 0' URG; echo ready; while :; do sleep 0.05; done"
    running = start(alone / "job.py", "run", "--dir", alone / "d", "--", "sh", "-c", script, env=inside)
    assert running.stdout.readline() == "ready\n"
    running.send_signal(signal.SIGURG)
    assert running.communicate(timeout=90)[0] == ""
    assert running.returncode == 0
    assert not (alone / "asked").exists()


TWIN = """
import os, signal, sys
from multiprocessing import get_context
sys.path.insert(0, {folder!r})
from job import Lease

def reduced(barrier, slots, rank, value, how):
    slots[rank] = value
    barrier.wait()
    result = how(slots[:])
    barrier.wait()
    return result

def train(rank, barrier, slots, folder, asked_at):
    lease = Lease(folder, agree=lambda asked: bool(reduced(barrier, slots, rank, float(asked), max)))
    first, weight = lease.resume_at(), 1.0
    if first:
        weight = float(open(folder + "/weight").read())
    for step in range(first, 20):
        weight -= 0.1 * reduced(barrier, slots, rank, weight * (rank + 1), sum) / 2
        if rank == 1 and step == asked_at:
            os.kill(os.getpid(), signal.SIGURG)
        if lease.should_stop(step):
            if rank == 0:
                open(folder + "/weight", "w").write(repr(weight))
                lease.checkpoint_done(step + 1)
            if lease.give_way():
                break
    print(rank, step, repr(weight), flush=True)

if __name__ == "__main__":
    fork = get_context("fork")
    shared = fork.Barrier(2), fork.Array("d", 2)
    ranks = [fork.Process(target=train, args=(rank, *shared, sys.argv[1], int(sys.argv[2]))) for rank in range(2)]
    for each in ranks:
        each.start()
    for each in ranks:
        each.join()
"""
"""What the example for PyTorch does, with an all-reduce of its own."""


def test_ranks_that_agree_by_a_reduction_stop_together_and_end_with_the_weights_of_an_unbroken_run(alone):
    (alone / "twin.py").write_text(TWIN.format(folder=str(alone)))

    def trained(folder, asked_at):
        lines = start(alone / "twin.py", alone / folder, asked_at).communicate(timeout=90)[0].splitlines()
        return sorted(line.split()[1:] for line in lines)

    whole = trained("whole", -1)
    first = trained("broken", 7)
    assert [step for step, _ in first] == ["7", "7"], "both after the same step, of which one alone was asked"
    assert trained("broken", -1) == whole
    assert whole[0] == whole[1]


PACED = """
import sys, time
sys.path.insert(0, {folder!r})
from job import Lease
lease = Lease("d", ranks=1, measure_s=0.1)
for step in range(7, 1000):
    time.sleep(0.01)
    lease.should_stop(step)
    if step == 27 and sys.argv[1] == "silent" or open({folder!r} + "/comment").read().count("pace="):
        time.sleep(0.3)
        break
"""


@pytest.mark.parametrize(
    ("comment", "says"),
    [
        ("tag;slurmsched:ckpt,iterations=500;slurmsched:share=0+1:half", True),
        ("tag;slurmsched:ckpt", False),
    ],
)
def test_a_job_that_said_how_many_iterations_it_plans_adds_their_pace_to_its_comment(alone, inside, comment, says):
    (alone / "train.py").write_text(PACED.format(folder=str(alone)))
    (alone / "comment").write_text(f"{comment}\n")
    squeue = alone / "bin/squeue"
    squeue.write_text(f'#!/bin/sh\necho "squeue $@" >> {alone}/asked\ncat {alone}/comment\n')
    squeue.chmod(0o755)
    scontrol = alone / "bin/scontrol"
    scontrol.write_text(
        f'#!/bin/sh\necho "scontrol $1 $2" >> {alone}/asked\necho "${{3#comment=}}" > {alone}/comment\n'
    )
    training = start(alone / "train.py", "says" if says else "silent", cwd=alone, env=inside)
    assert training.communicate(timeout=90)[0] == ""
    asked = (alone / "asked").read_text().splitlines()
    after = (alone / "comment").read_text().strip()
    assert asked[0] == "squeue --noheader --jobs=77 --format=%k"
    assert asked[1:] == (["scontrol update jobid=77"] if says else [])
    if not says:
        assert after == comment
        return
    pace_s = parse(after).pace_s
    assert 0.01 <= pace_s < 0.1
    assert after == comment.replace("iterations=500", f"iterations=500,pace={pace_s:.6f},done=7")


def test_a_job_goes_on_where_slurm_does_not_answer(alone, inside):
    (alone / "train.py").write_text(PACED.format(folder=str(alone)))
    (alone / "comment").write_text("")
    (alone / "bin/squeue").write_text("#!/bin/sh\nexit 1\n")
    (alone / "bin/squeue").chmod(0o755)
    command = [sys.executable, "-I", str(alone / "train.py"), "silent"]
    training = subprocess.run(command, cwd=alone, env=inside, timeout=90, check=False, capture_output=True, text=True)
    assert (training.returncode, training.stderr) == (0, "")
    assert not (alone / "asked").exists()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("slurmsched:iterations=5", "slurmsched:iterations=5,pace=0.250000"),
        ("x=1;slurmsched:pace=9,iterations=5,ckpt", "x=1;slurmsched:iterations=5,ckpt,pace=0.250000"),
        ("slurmsched:pace=9;slurmsched:iterations=5;y", ";slurmsched:iterations=5,pace=0.250000;y"),
        ("slurmsched:iterations=5;slurmsched:share=1+2", "slurmsched:iterations=5,pace=0.250000;slurmsched:share=1+2"),
        ("slurmsched:ckpt", None),
        ("myslurmsched:iterations=5", None),
        ("two words;slurmsched:iterations=5", None),
        ("", None),
    ],
)
def test_a_pace_replaces_the_one_before_and_nothing_else(before, after):
    assert with_progress(before, 0.25, 0) == after


@pytest.mark.parametrize(
    ("before", "done", "after"),
    [
        ("slurmsched:iterations=5,pace=9", 3, "slurmsched:iterations=5,pace=9,done=3"),
        ("x;slurmsched:done=1,iterations=5,ckpt;y", 5, "x;slurmsched:iterations=5,ckpt,done=5;y"),
        ("slurmsched:iterations=5,done=4", 0, "slurmsched:iterations=5"),
        ("slurmsched:iterations=5,done=4", 6, "slurmsched:iterations=5"),
        ("slurmsched:iterations=5,done=4", -1, "slurmsched:iterations=5"),
        ("slurmsched:ckpt", 3, None),
        ("slurmsched:iterations=many", 3, None),
    ],
)
def test_what_is_done_replaces_what_was_and_is_left_out_where_it_cannot_be(before, done, after):
    assert with_progress(before, None, done) == after


@pytest.mark.parametrize("pace_s", [0.0, 1e-9, 1e-6, 0.1, 86400.0, 1e9])
def test_any_pace_is_written_so_that_it_is_understood(pace_s):
    assert parse(with_progress("slurmsched:iterations=5", pace_s, 2)).pace_s > 0


def said(took_s, first_s=0.0, meter=None):
    """What a meter says and when, of iterations that took so long."""
    meter, now_s, found = meter or Meter(), first_s, []
    for step, more_s in enumerate([0.0, *took_s]):
        now_s += more_s
        pace_s = meter.mark(step, now_s)
        if pace_s is not None:
            found.append((now_s, pace_s))
    return found


def test_a_pace_is_said_after_a_minute_and_ten_iterations_and_a_slow_one_does_not_count():
    assert said([30.0, *[2.0] * 200]) == [(60.0, 2.0)]
    assert said([20.0] * 20) == [(200.0, 20.0)]
    assert said([20.0] * 9) == []


def test_a_pace_is_said_again_where_it_has_moved_by_more_than_a_quarter_and_not_sooner_than_in_ten_minutes():
    assert said([2.0] * 30 + [2.4] * 3000) == [(60.0, 2.0)]
    (first, second) = said([2.0] * 30 + [4.0] * 3000)
    assert first == (60.0, 2.0)
    assert second == (60.0 + AGAIN_S, 4.0)


def test_iterations_between_two_calls_count_each():
    meter = Meter()
    found = [meter.mark(step * 5, step * 10.0) for step in range(20)]
    assert [pace_s for pace_s in found if pace_s is not None] == [2.0]


@pytest.fixture
def signals():
    """Handlers as they were."""
    before = {each: signal.getsignal(each) for each in SIGNALS}
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


def test_a_job_of_one_rank_stops_where_it_is_and_goes_on_there(tmp_path, signals):
    lease = Lease(tmp_path, ranks=1)
    assert lease.resume_at() == 0
    assert not lease.should_stop(7)
    os.kill(os.getpid(), signal.SIGTERM)
    assert lease.should_stop(8)
    lease.checkpoint_done(9)
    assert Lease(tmp_path, ranks=1).resume_at() == 9


def test_ranks_in_step_stop_together_through_the_file(tmp_path, signals):
    ranks = [Lease(tmp_path, ranks=3) for _ in range(3)]
    stopped = {}
    for step in range(10):
        for number, lease in enumerate(ranks):
            if step == 4 and number == 1:
                lease._ask(signal.SIGUSR1, None)
            if number not in stopped and lease.should_stop(step):
                stopped[number] = step
    assert stopped == {0: 6, 1: 6, 2: 6}


def test_ranks_can_agree_by_a_call_of_their_own(tmp_path, signals):
    told = []

    def agree(asked):
        told.append(asked)
        return True

    assert Lease(tmp_path, agree=agree).should_stop(0)
    assert told == [False]


def test_a_margin_of_nothing_is_refused(tmp_path):
    with pytest.raises(ValueError, match="accepted are 1 and more"):
        Lease(tmp_path, margin=0)


def test_the_shell_form_passes_the_signal_on_and_says_that_it_came(alone):
    script = "trap 'echo asked; exit 3' USR1; echo ready; while :; do sleep 0.05; done"
    running = start(alone / "job.py", "run", "--dir", alone / "d", "--", "sh", "-c", script)
    assert running.stdout.readline() == "ready\n"
    stopping = [sys.executable, "-I", str(alone / "job.py"), "stopping", "--dir", str(alone / "d")]
    assert subprocess.run(stopping, timeout=90, check=False).returncode == 1
    running.send_signal(signal.SIGUSR1)
    assert running.communicate(timeout=90)[0] == "asked\n"
    assert running.returncode == 3
    assert subprocess.run(stopping, timeout=90, check=False).returncode == 0


class Collector:
    """What reports are sent to: the answers in turn, the last one for all others."""

    def __init__(self, *answers: str | Exception) -> None:
        self.sent: list[tuple[int, float | None, float | None]] = []
        self._answers, self.answered = list(answers), threading.Event()

    def __call__(self, *report: Any) -> str:
        self.sent.append(report)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        self.answered.set()
        if isinstance(answer, Exception):
            raise answer
        return answer


def until_true(condition):
    until_s = time.monotonic() + 120.0
    while not condition():
        assert time.monotonic() < until_s
        time.sleep(0.01)


def test_a_report_goes_out_once_in_half_a_minute_and_a_stop_is_for_good():
    collector = Collector("ok")
    reporter = Reporter(collector)
    assert reporter.report(1, 0.5, None) is False
    until_true(lambda: reporter._next_s < float("inf"))
    assert REPORT_S - 20 < reporter._next_s - time.monotonic() <= REPORT_S
    assert reporter.report(2, 0.4, None) is False
    assert collector.sent == [(1, 0.5, None, None, None)]
    ends = Reporter(Collector("stop: enough"))
    until_true(lambda: ends.report(3, None, 0.9))
    assert ends.report(4, None, 0.1) is True


@pytest.mark.parametrize(
    ("answer", "wait_s"),
    [("later: 900", 900), ("refused: no", 300), ("", 300), ("noise", 300), (OSError("away"), 300), ("later: x", 30)],
)
def test_training_goes_on_where_no_report_counts(answer, wait_s):
    reporter = Reporter(Collector(answer))
    assert reporter.report(1, None, None) is False
    until_true(lambda: reporter._next_s < float("inf"))
    assert wait_s - 20 < reporter._next_s - time.monotonic() <= wait_s
    assert reporter.report(2, None, None) is False


def test_a_report_costs_the_training_loop_microseconds():
    reporter = Reporter(Collector("ok"))
    took_s = []
    for step in range(2000):
        began = time.perf_counter()
        reporter.report(step, 0.5, 0.5)
        took_s.append(time.perf_counter() - began)
    assert sorted(took_s)[len(took_s) // 2] < 50e-6


def test_outside_a_job_and_on_other_ranks_nothing_is_sent(alone, inside):
    code = (
        "import job; job._REPORTER = job.Reporter(lambda *report: 'ok')\n"
        "print(job.report(1)); print(int(job._REPORTER._started))"
    )
    outside = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
    for environment, sent in ((outside, 0), (inside | {"SLURM_PROCID": "1"}, 0), (inside, 1)):
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=alone, env=environment, capture_output=True, text=True, check=True
        )
        assert done.stdout.split() == ["False", str(sent)]


RANKS = """
import os, job
job._REPORTER = job.Reporter(lambda *report: "ok")
ends = {0: [], 1: []}
leases = [job.Lease("saved", ranks=2) for _ in range(2)]
for step in range(10):
    job._REPORTER._finished = step >= 3
    for rank, lease in enumerate(leases):
        os.environ["SLURM_PROCID"] = str(rank)
        ends[rank] += [step] if lease.report(step) else []
print(ends[0][0], ends[1][0], *(lease.give_way() for lease in leases))
"""


def test_a_lease_reports_the_samples_of_the_steps_that_it_cut(alone, inside):
    code = """
import job
sent = []
job._REPORTER = job.Reporter(lambda *report: sent.append(report) or "later: 0")
lease = job.Lease("saved")
for samples in (None, 96):
    lease.report(1, noise=9.0, samples=samples)
    while not sent or job._REPORTER._next_s == float("inf"):
        job.time.sleep(0.01)
    print(*sent.pop()[3:])
    job._REPORTER._next_s = 0.0
    lease.batch(samples=64, most=16, up_to=100)
lease.report(2)
while not sent:
    job.time.sleep(0.01)
print(sent.pop()[4])
"""
    four = inside | {"SLURM_GPUS_ON_NODE": "4", "SLURM_JOB_NUM_NODES": "1", "SLURM_NTASKS": "1"}
    captured = {"capture_output": True, "text": True, "check": True, "timeout": 120.0}
    done = subprocess.run([sys.executable, "-c", code], cwd=alone, env=four, **captured)
    assert done.stdout.split() == ["9.0", "None", "9.0", "96", "64"]


def test_all_ranks_end_after_the_same_iteration_and_queue_nothing(alone, inside):
    done = subprocess.run(
        [sys.executable, "-c", RANKS],
        cwd=alone,
        env=inside,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["5", "5", "True", "True"], "the margin is two iterations"
    assert not (alone / "asked").exists(), "no requeue"


def test_a_script_reports_with_one_command(alone, inside, tmp_path):
    seen = tmp_path / "seen"
    (alone / "bin/munge").write_text(f'#!/bin/sh\necho "$@" > {seen}.words\ncat > {seen}; echo MUNGE:x:\n')
    (alone / "bin/munge").chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as server:
        conf = alone / "node.conf"
        port = server.getsockname()[1]
        conf.write_text(f"COLLECTOR=127.0.0.1:{port}\nCOLLECTOR_USER=sched\nMUNGE_SOCKET=/run/m\n")
        child = subprocess.Popen(
            [
                sys.executable,
                "job.py",
                "report",
                "--iteration",
                "12",
                "--loss",
                "0.5",
                "--noise",
                "900",
                "--samples",
                "512",
            ],
            cwd=alone,
            env=inside | {"SLURMSCHED_NODE_CONF": str(conf), "SLURMD_NODENAME": "n3"},
            stderr=subprocess.PIPE,
            text=True,
        )
        server.settimeout(300.0)
        stream, _ = server.accept()
        with stream:
            assert stream.makefile("rb").readline() == b"MUNGE:x:\n"
            stream.sendall(b"stop: enough\n")
        assert child.communicate(timeout=300)[1] == "stop: enough\n"
    assert child.returncode == 0
    assert json.loads(seen.read_text()) == {
        "version": 1, "job_id": 77, "restart": 0, "node": "n3", "progress": 12, "loss": 0.5, "accuracy": None,
        "noise": 900.0, "samples": 512,
    }  # fmt: skip
    assert Path(f"{seen}.words").read_text() == "--restrict-uid=sched --socket=/run/m\n"


def test_a_script_is_told_why_no_report_was_sent(alone, inside):
    done = subprocess.run(
        [sys.executable, "job.py", "report"],
        cwd=alone,
        env=inside | {"SLURMSCHED_NODE_CONF": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "no COLLECTOR in /etc/slurmsched/node.conf\n")
