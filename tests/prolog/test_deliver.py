"""Records on their way to the daemon: each once, none lost, nobody kept waiting."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest
from node_worlds import PROGRAMS, TWO_GPUS, wait_until

#: Seals nothing, but is called like munge and notes how.
MUNGE = """#!/bin/sh
echo "$@" >>{home}/munge.log
printf MUNGE:
base64 -w0
"""


@dataclass
class Desk:
    """A collector that answers what a test wants."""

    answer: bytes = b"ok\n"
    heard: list[str] = field(default_factory=list)

    def serve(self, stack: ExitStack) -> str:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        thread = threading.Thread(target=self._run, args=(server,), daemon=True)
        thread.start()
        stack.callback(thread.join)
        stack.callback(server.shutdown, socket.SHUT_RDWR)
        return f"127.0.0.1:{server.getsockname()[1]}"

    def _run(self, server: socket.socket) -> None:
        while True:
            try:
                stream, _ = server.accept()
            except OSError:
                return
            with stream:
                line = stream.makefile("rb").readline().removeprefix(b"MUNGE:")
                self.heard.append(base64.b64decode(line).decode())
                stream.sendall(self.answer)


@pytest.fixture
def desk():
    return Desk()


@pytest.fixture
def site(node, desk):
    """A node whose collector is *desk*, with three records in the spool."""
    munge = node.home / "munge"
    munge.write_text(MUNGE.format(home=node.home))
    munge.chmod(0o755)
    node.spool.mkdir(mode=0o700)
    for job_id in (1, 2, 3):
        record = node.spool / f"{job_id}.n1.100.json"
        record.write_text(f"record {job_id}")
        os.utime(record, (time.time() - 100 + job_id,) * 2)
    with ExitStack() as stack:
        node.settings |= {"COLLECTOR": desk.serve(stack), "COLLECTOR_USER": "990", "MUNGE": str(munge)}
        yield node


def deliver(node, **changes):
    settings = {f"SLURMSCHED_{key}": value for key, value in node.settings.items()}
    subprocess.run([sys.executable, "-I", PROGRAMS / "deliver.py"], env=node.environ | settings | changes, check=True)


def test_each_record_is_sealed_for_the_daemon_and_goes_newest_first(site, desk):
    deliver(site, SLURMSCHED_MUNGE_SOCKET="/run/m")
    assert desk.heard == ["record 3", "record 2", "record 1"]
    assert site.files() == []
    assert (site.home / "munge.log").read_text() == "--restrict-uid=990 --socket=/run/m\n" * 3


def test_a_record_that_is_never_wanted_is_dropped(site, desk):
    desk.answer = b"refused: gpus is no list\n"
    deliver(site)
    assert site.files() == []


@pytest.mark.parametrize("answer", [b"later: the database is away\n", b"", b"nonsense\n", b"okay\n", b"x" * 5000])
def test_a_record_that_was_not_taken_stays(site, desk, answer):
    desk.answer = answer
    deliver(site)
    assert (len(site.files()), len(desk.heard)) == (3, 3)
    desk.answer = b"ok\n"
    deliver(site)
    assert site.files() == []


@pytest.mark.parametrize(
    "setting",
    [
        {"SLURMSCHED_COLLECTOR": "127.0.0.1:1"},
        {"SLURMSCHED_COLLECTOR": "nonsense"},
        {"SLURMSCHED_MUNGE": "/bin/false"},
        {"SLURMSCHED_MUNGE": "/nonexistent/munge"},
        {"SLURMSCHED_SPOOL_DIR": "/nonexistent/spool"},
        {"SLURMSCHED_COLLECTOR": ""},
    ],
)
def test_what_cannot_be_delivered_waits(site, desk, setting):
    deliver(site, **setting)
    assert (len(site.files()), desk.heard) == (3, [])


def test_only_records_of_samplers_are_sent(site, desk):
    (site.spool / ".4.n1.100.json.77").write_text("a draft")
    (site.spool / "notes.json").write_text("no record")
    (site.spool / "5.n1.100.json").symlink_to("/etc/passwd")
    (site.spool / "6.n1.100.json").mkdir()
    (site.spool / "8.n1.100.json").write_bytes(b" " * 100_000)
    deliver(site)
    assert desk.heard == ["record 3", "record 2", "record 1"]


def test_faults_of_pairs_are_sent_too(site, desk):
    (site.spool / "9.n1.100.fault").write_text("fault 9")
    deliver(site)
    assert desk.heard[0] == "fault 9"
    assert site.files() == []


def test_a_spool_that_others_can_write_is_not_sent(site, desk):
    site.spool.chmod(0o750)
    deliver(site)
    assert desk.heard == []


def test_two_deliveries_at_once_send_each_record_once(site, desk):
    threads = [threading.Thread(target=deliver, args=(site,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(desk.heard) == ["record 1", "record 2", "record 3"]


def test_the_epilog_delivers_its_own_record_and_those_that_waited(site, desk):
    site.measured()
    site.run("epilog")
    wait_until(lambda: len(desk.heard) == 4, "the deliveries")
    assert '"job_id": 7' in desk.heard[0]
    wait_until(lambda: site.files() == [], "an empty spool")


def test_a_job_that_runs_is_known_before_its_end_each_time_with_more(site, desk):
    site.settings["EARLY_S"] = "0.2"
    pid = site.measured()

    def delivered():
        return [json.loads(text) for text in desk.heard if text.startswith("{")]

    wait_until(lambda: len(delivered()) >= 2, "two records of the job that runs")
    assert site.sampler() == pid
    first, second, *_ = delivered()
    assert first["gpus"][0]["samples"] < second["gpus"][0]["samples"]
    site.run("epilog")
    wait_until(lambda: site.samplers() == [] == site.files(), "the record of the end")
    assert {(record["job_id"], record["start_s"]) for record in delivered()} == {(7, first["start_s"])}
    assert max(record["gpus"][0]["samples"] for record in delivered()) > second["gpus"][0]["samples"]


def test_a_gpu_that_comes_to_stand_idle_is_told_at_once_and_again_when_it_is_used(site, desk):
    site.script(TWO_GPUS + "0 1 processes 1\n0 1 util 50/5\n#20 1 util 0/0\n#20 1 processes 0\n#80 1 processes 1\n")
    site.settings |= {"EARLY_S": "3600", "IDLE_S": "0.3"}
    site.measured()

    def told():
        return [json.loads(text)["idle_gpus"] for text in desk.heard if text.startswith("{")]

    wait_until(lambda: told() == [1, 0], "a record when it stands idle, and one when it does not")
    site.run("epilog")
    wait_until(lambda: site.samplers() == [] == site.files(), "the record of the end")


def test_a_delivery_that_waits_for_its_answer_costs_no_record_of_the_end(node):
    munge = node.home / "munge"
    munge.write_text(MUNGE.format(home=node.home))
    munge.chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        node.settings |= {"COLLECTOR": address, "COLLECTOR_USER": "990", "MUNGE": str(munge), "EARLY_S": "0.2"}
        pid = node.measured()
        wait_until((node.home / "munge.log").exists, "a delivery under way")
        node.run("epilog")
        wait_until(lambda: pid not in node.samplers(), "the sampler to end")
        early, end = sorted(node.files(), key=len, reverse=True)
        assert early == end.replace(".json", ".early.json")
        for delivery in node.samplers():
            os.kill(delivery, signal.SIGTERM)
        wait_until(lambda: node.samplers() == [], "deliveries to end by a signal")


def test_an_epilog_without_a_sampler_delivers_what_waited(site, desk):
    site.run("epilog")
    wait_until(lambda: site.files() == [], "an empty spool")
    assert len(desk.heard) == 3
