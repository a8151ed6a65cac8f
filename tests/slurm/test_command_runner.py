"""Commands that answer too much, too late, or not at all."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from slurmsched.errors import SlurmRefused, SlurmUnavailable
from slurmsched.slurm.adapters.command_runner import CommandRunner, mark


@pytest.fixture
def console(tmp_path: Path) -> CommandRunner:
    def program(name: str, script: str) -> None:
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)

    program("cat", "exec /bin/cat")
    program("zeros", 'exec head -c "$1" /dev/zero')
    program("complaints", 'exec head -c "$1" /dev/zero >&2')
    program("sleeper", "exec sleep 60")
    program("deaf", "exec 0<&-; echo done")
    program("closed", "exec 1>&- 2>&-; exec sleep 60")
    program("grumbler", 'echo "squeue: error: Invalid field $1" >&2; exit 1')
    return CommandRunner(bin_dir=str(tmp_path), timeout_s=20.0, answer_b=100_000)


def test_all_that_is_said_to_a_command_and_by_it_goes_through(console):
    text = "ü\udcff\n" * 200_000
    assert CommandRunner(bin_dir=console.bin_dir, timeout_s=60.0).run(["cat"], stdin=text).out == text
    assert console.run(["zeros", "100000"]).out == "\0" * 100_000


def test_a_command_that_does_not_listen_may_answer_all_the_same(console):
    assert console.run(["deaf"], stdin="x" * 1_000_000).out == "done\n"


@pytest.mark.parametrize("command", ["zeros", "complaints"])
@pytest.mark.parametrize("bytes_b", [100_001, 10**15])
def test_an_answer_that_is_too_long_is_none(console, command, bytes_b):
    with pytest.raises(SlurmUnavailable, match=f"{command} answered with more than 0.0953674 MiB"):
        console.run([command, str(bytes_b)])


@pytest.mark.parametrize("command", ["sleeper", "closed"])
def test_a_silent_command_is_told_without_its_arguments(console, command):
    short = CommandRunner(bin_dir=console.bin_dir, timeout_s=0.3)
    with pytest.raises(SlurmUnavailable) as caught:
        short.run([command, "-O", f"JobID:{mark()}"])
    assert str(caught.value) == f"{command} did not answer within 0.3 s"


def test_when_the_time_for_all_commands_is_up_the_one_under_way_ends_and_no_other_begins(console):
    console.left.bound(0.5)
    began_s = time.monotonic()
    for _ in range(3):
        with pytest.raises(SlurmUnavailable, match="sleeper had no time left to answer"):
            console.run(["sleeper"])
    assert time.monotonic() - began_s < console.timeout_s / 2


def test_a_command_that_is_not_there_is_told_without_its_directory(console):
    with pytest.raises(SlurmUnavailable) as caught:
        console.run(["nothing", "-h"])
    assert str(caught.value) == "nothing cannot be run: No such file or directory"


def test_a_complaint_is_told_without_the_marks_of_the_call(console):
    with pytest.raises(SlurmRefused) as caught:
        console.query(["grumbler", f"JobID:{mark()}"])
    assert str(caught.value) == "grumbler: squeue: error: Invalid field JobID:"


LITTLE = """
import resource, sys
from slurmsched.errors import SlurmUnavailable
from slurmsched.slurm.adapters.command_runner import CommandRunner
resource.setrlimit(resource.RLIMIT_AS, (500 * 2**20, 500 * 2**20))
try:
    CommandRunner(bin_dir=sys.argv[1], timeout_s=60.0, answer_b=10**12).run(["zeros", str(10**12)])
except SlurmUnavailable as error:
    print(error)
"""


def test_an_answer_that_does_not_fit_into_memory_is_none(console):
    done = subprocess.run([sys.executable, "-c", LITTLE, console.bin_dir], capture_output=True, text=True, timeout=120)
    assert done.stdout == "zeros gave an answer that does not fit into memory\n", done.stderr[-2000:]
