"""The tool dies at some point of `lab up`; `down` still removes everything."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from lab_traces import Traces

from slurmsched.lab import Lab, wait_until

UP = """
import sys
from slurmsched.lab import Lab, LabSpec
Lab(sys.argv[1], LabSpec(nodes=2, accounting=sys.argv[2] == "accounting")).up()
print("up")
"""

#: Goes on until it is about to start slurmctld, and then waits to be told to stop.
HALF_WAY = """
import sys, time
def at_the_controller(event, details):
    if event == "os.posix_spawn" and any("slurmctld" in str(word) for word in details[1]):
        print("half-way", flush=True)
        time.sleep(600)
sys.addaudithook(at_the_controller)
"""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="accounting needs root")


@pytest.mark.parametrize(
    ("kind", "file"),
    [
        ("plain", "lab.json"),
        ("plain", "run/munge.socket"),
        ("plain", "log/slurmctld.log"),
        ("plain", "spool/n2"),
        pytest.param("accounting", "db/data/ibdata1", marks=needs_root),
        pytest.param("accounting", "log/slurmdbd.log", marks=needs_root),
        pytest.param("accounting", "etc/accounting.cfg", marks=needs_root),
    ],
)
def test_down_cleans_up_after_a_tool_killed_when_it_had_come_to(kind, file, lab_directory):
    with subprocess.Popen([sys.executable, "-c", UP, str(lab_directory), kind], stdout=subprocess.PIPE) as tool:
        wait_until(lambda: (lab_directory / file).exists(), 120.0, f"{file} to be made", every_s=0.0005)
        tool.send_signal(signal.SIGKILL)
        tool.wait(90.0)
    traces = Traces.of(lab_directory)
    Lab(lab_directory).down()
    assert traces.left() == []


def test_down_cleans_up_after_a_tool_killed_before_its_first_record(lab_directory):
    (lab_directory / "lab.json.draft").write_text('{"schema": "slur')
    Lab(lab_directory).down()
    assert not lab_directory.exists()


def test_a_tool_told_to_stop_takes_down_what_it_had_built(lab_directory):
    with subprocess.Popen(
        [sys.executable, "-c", HALF_WAY + UP, str(lab_directory), "plain"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as tool:
        assert tool.stdout.readline() == b"half-way\n"
        traces = Traces.of(lab_directory)
        tool.send_signal(signal.SIGINT)
        assert b"KeyboardInterrupt" in tool.communicate(timeout=120)[1]
    assert traces.left() == []
