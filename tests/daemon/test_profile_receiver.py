"""Who may tell the daemon what a job did; with a munged of its own."""

from __future__ import annotations

import json
import math
import os
import pwd
import re
import socket
import subprocess
import threading
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from munge_worlds import munged
from profile_worlds import NOW_S, gpu, record

from slurmsched.clock import ManualClock
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.jobs import JobState, job_table
from slurmsched.cluster.records.faults import Fault, Instability
from slurmsched.cluster.records.profiles import NodeProfile
from slurmsched.daemon.api.refusal_budget import BURST
from slurmsched.daemon.job_placements import JobPlacements
from slurmsched.daemon.profiles.fault_record import delivery_of
from slurmsched.daemon.profiles.profile_receiver import (
    CONVERSATIONS,
    CREDENTIAL_B,
    PER_ADDRESS,
    ProfileReceiver,
    Receiver,
    parse_listen,
)
from slurmsched.daemon.profiles.profile_record import BadRecord, opened
from slurmsched.daemon.profiles.progress_report import ProgressReport, ReportedEarly, ReportRefused
from slurmsched.errors import ConfigError, MemoryUnavailable


@pytest.fixture(scope="module")
def munge():
    with munged() as ours:
        yield ours


@dataclass
class Desk:
    """What a Receiver is told, and what it answers."""

    addresses: dict[str, set[str]]
    ran: bool | None = True
    gone: bool = False
    trouble: Exception | None = None
    kept: list[NodeProfile] = field(default_factory=list)
    counted: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    unstable: list[Instability] = field(default_factory=list)
    reports: list[tuple[ProgressReport, int]] = field(default_factory=list)
    answer: bool | Exception = False  #: to a report
    counted_reports: list[str] = field(default_factory=list)

    def keep(self, profile: NodeProfile) -> None:
        if self.trouble:
            raise self.trouble
        self.kept.append(profile)

    def report(self, report: ProgressReport, uid: int) -> bool:
        self.reports.append((report, uid))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def receiver(self) -> Receiver:
        return Receiver(
            addresses=lambda node: frozenset(self.addresses.get(node, ())),
            ran=lambda job_id, node: self.ran,
            gone=lambda job_id, end_s: self.gone,
            save=self.keep,
            keep_fault=self.faults.append,
            save_unstable=self.unstable.append,
            counted=self.counted.append,
            report=self.report,
            counted_report=self.counted_reports.append,
        )


@pytest.fixture
def desk(munge):
    return Desk({"n1": {"127.0.0.1", munge.address}})


@pytest.fixture
def clock():
    return ManualClock(NOW_S)


@pytest.fixture
def collector(munge, desk, clock):
    with ExitStack() as stack:
        made = ProfileReceiver(("127.0.0.1", 0), desk.receiver(), clock, unmunge=munge.unmunge)
        stack.callback(made.close)
        made.start()
        yield made
    assert "collector" not in [thread.name for thread in threading.enumerate()]


def deliver(collector, line):
    with socket.create_connection(collector.address, timeout=60.0) as stream:
        stream.sendall(line)
        return stream.makefile().readline().strip()


def told(**changes):
    return json.dumps(record(**changes)).encode()


def test_a_record_of_a_node_is_kept(munge, desk, collector):
    assert deliver(collector, munge.credential(told())) == "ok"
    assert [(profile.job_id, profile.node, profile.gpu_util) for profile in desk.kept] == [(7, "n1", 0.4)]
    assert collector.results == {"ok": 1}
    assert desk.counted == ["ok"]


FAULT = {
    "version": 1,
    "job_id": 7,
    "restart": 0,
    "node": "n1",
    "uid": 1000,
    "start_s": NOW_S - 100,
    "end_s": NOW_S,
    "gpus": [0, 1],
    "with": [8],
    "fault": "the control daemon has ended",
}


def test_a_fault_of_a_pair_is_kept_apart_from_profiles(munge, desk, collector):
    assert deliver(collector, munge.credential(json.dumps(FAULT).encode())) == "ok"
    assert desk.faults == [Fault(7, 0, "n1", NOW_S - 100, NOW_S, (0, 1), (8,), "the control daemon has ended")]
    assert not desk.kept


@pytest.mark.parametrize(("said", "own"), [({}, False), ({"harm": "partners"}, False), ({"harm": "own"}, True)])
def test_a_fault_says_whether_it_harmed_a_partner_and_did_where_an_older_node_says_nothing(said, own):
    fault = delivery_of(FAULT | said, NOW_S)
    assert isinstance(fault, Fault)
    assert fault.own is own


@pytest.mark.parametrize(
    "absurd",
    [{"with": []}, {"with": [0]}, {"harm": "all"}, {"harm": ["own"]}, {"gpus": "0"}, {"fault": ""},
     {"fault": "x" * 201}, {"node": "../n1"}, {"end_s": 5}],
    ids=str,
)  # fmt: skip
def test_an_absurd_fault_is_no_record(absurd):
    with pytest.raises(BadRecord):
        delivery_of(opened(json.dumps(FAULT | absurd).encode()), NOW_S)


WORD = {name: value for name, value in FAULT.items() if name != "fault"} | {
    "with_restarts": [2],
    "unstable": "utilisation jumps",
}


def test_word_of_an_unstable_pair_is_kept_once_however_often_it_is_replayed(munge, desk, collector):
    credential = munge.credential(json.dumps(WORD).encode())
    assert deliver(collector, credential) == "ok"
    assert deliver(collector, credential).startswith("later: Replayed credential")
    assert desk.unstable == [
        Instability(7, 0, "n1", NOW_S - 100, NOW_S, (0, 1), (8,), (2,), "utilisation jumps"),
    ]
    assert not desk.kept
    assert not desk.faults


def test_forged_word_of_an_unstable_pair_is_refused(munge, desk, collector):
    word = json.dumps(WORD).encode()
    assert deliver(collector, munge.credential(word, user="nobody")).startswith("refused: user ")
    elsewhere = json.dumps(WORD | {"node": "n2"}).encode()
    assert "is not known as an address of node n2" in deliver(collector, munge.credential(elsewhere))
    desk.ran = False
    assert deliver(collector, munge.credential(word)) == "refused: job 7 was not seen on node n1"
    assert not desk.unstable


@pytest.mark.parametrize(
    "absurd",
    [{"with_restarts": []}, {"with_restarts": [1, 1]}, {"with": [7]}, {"unstable": True}, {"unstable": ""}],
    ids=str,
)
def test_absurd_word_of_an_unstable_pair_is_no_record(absurd):
    with pytest.raises(BadRecord):
        delivery_of(opened(json.dumps(WORD | absurd).encode()), NOW_S)


def test_a_record_for_this_user_alone_is_opened(munge, desk, collector):
    assert deliver(collector, munge.credential(told(), f"--restrict-uid={os.geteuid()}")) == "ok"


def test_a_credential_of_a_user_is_refused_for_good(munge, desk, collector):
    answer = deliver(collector, munge.credential(told(), user="nobody"))
    assert answer.startswith("refused: user ")
    assert (desk.kept, collector.results) == ([], {"user": 1})


def test_a_credential_for_someone_else_is_not_opened(munge, desk, collector):
    assert "Unauthorized" in deliver(collector, munge.credential(told(), "--restrict-uid=nobody"))
    assert (desk.kept, collector.results) == ([], {"credential": 1})


def test_a_credential_counts_once(munge, desk, collector):
    credential = munge.credential(told())
    assert deliver(collector, credential) == "ok"
    assert deliver(collector, credential).startswith("later: Replayed credential")
    assert len(desk.kept) == 1


@pytest.mark.parametrize("line", [b"\n", b"hello\n", b"MUNGE:AwQFAAA=:\n", b"\x00\xff\n"])
def test_what_is_no_credential_is_not_taken(desk, collector, line):
    assert deliver(collector, line).startswith("later: ")
    assert (desk.kept, collector.results) == ([], {"credential": 1})


def test_garbage_is_logged_once_an_hour_with_its_number(desk, collector, clock, caplog):
    for _ in range(3):
        deliver(collector, b"MUNGE:garbage:\n")
    clock.now_s += 3601.0
    deliver(collector, b"MUNGE:garbage:\n")
    lines = [record.getMessage() for record in caplog.records if "was not accepted" in record.getMessage()]
    assert [re.findall(r"\((\d+) since the start", line) for line in lines] == [["1"], ["4"]]


def test_an_address_that_sends_garbage_is_opened_no_more_until_a_while_has_passed(munge, desk, collector, clock):
    desk.addresses["n1"].add("127.0.0.9")
    for _ in range(int(BURST) + 5):
        deliver(collector, b"MUNGE:garbage:\n")
    assert collector.results == {"credential": int(BURST), "budget": 5}
    assert deliver(collector, munge.credential(told())) == "later: 1"
    other = socket.create_connection(collector.address, timeout=60.0, source_address=("127.0.0.9", 0))
    with other, other.makefile() as answer:
        other.sendall(munge.credential(told()))
        assert answer.readline() == "ok\n", "an address pays for itself alone"
    clock.now_s += 1.0
    assert deliver(collector, munge.credential(told())) == "ok"
    assert deliver(collector, munge.credential(told())) == "ok", "what is accepted costs nothing"


def test_reports_that_are_refused_are_charged_to_their_address(munge, desk, collector):
    desk.answer = ReportRefused("user", "job 7 is not of user 65534")
    for _ in range(int(BURST)):
        assert deliver(collector, munge.credential(json.dumps(PROGRESS).encode(), user="nobody")).startswith("refused")
    assert deliver(collector, munge.credential(json.dumps(PROGRESS).encode(), user="nobody")) == "later: 1"


def test_a_line_without_end_is_refused(desk, collector):
    assert deliver(collector, b"M" * (CREDENTIAL_B + 10)).startswith("refused: a credential has at most")
    assert collector.results == {"size": 1}


def test_an_absurd_record_is_refused_for_good(munge, desk, collector):
    answer = deliver(collector, munge.credential(told(gpus=[gpu(samples=10**9)])))
    assert answer.startswith("refused: samples = 1000000000; accepted")
    assert (desk.kept, collector.results) == ([], {"record": 1})


def test_a_node_cannot_speak_for_another(munge, desk, collector):
    desk.addresses["n2"] = {"192.0.2.7"}
    assert "is not known as an address of node n2" in deliver(collector, munge.credential(told(node="n2")))
    assert "of node n3" in deliver(collector, munge.credential(told(node="n3")))
    assert (desk.kept, collector.results) == ([], {"host": 2})


def test_the_address_that_a_nodes_munged_names_counts_more_than_the_connection(desk):
    others = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=False).stdout.split()
    if not others or ":" in others[0]:
        pytest.skip("this machine has no other IPv4 address")
    with munged(f"--origin={others[0]}") as far, ExitStack() as stack:
        collector = ProfileReceiver(("127.0.0.1", 0), desk.receiver(), ManualClock(NOW_S), unmunge=far.unmunge)
        stack.callback(collector.close)
        collector.start()
        desk.addresses["n1"] = {"127.0.0.1"}
        assert f"{others[0]} is not known" in deliver(collector, far.credential(told()))
        desk.addresses["n1"] = {others[0]}
        assert deliver(collector, far.credential(told())) == "ok"


def test_a_job_that_ran_elsewhere_is_refused_and_an_unknown_one_waits(munge, desk, collector):
    desk.ran = False
    assert deliver(collector, munge.credential(told())) == "refused: job 7 was not seen on node n1"
    desk.ran = None
    assert deliver(collector, munge.credential(told())) == "later: job 7 was not seen"
    desk.gone = True
    assert deliver(collector, munge.credential(told())) == "refused: job 7 was not seen"
    assert (desk.kept, collector.results) == ([], {"job": 3})


def test_while_the_database_is_away_records_stay_on_their_nodes(munge, desk, collector):
    desk.trouble = MemoryUnavailable("saving a profile: locked")
    assert deliver(collector, munge.credential(told())) == "later: saving a profile: locked"
    desk.trouble = None
    assert deliver(collector, munge.credential(told())) == "ok"
    assert collector.results == {"unavailable": 1, "ok": 1}


def test_a_bug_costs_one_delivery_and_is_logged(munge, desk, collector, caplog):
    desk.trouble = ZeroDivisionError("oh")
    assert deliver(collector, munge.credential(told())).startswith("later: a bug")
    assert "ZeroDivisionError" in caplog.text
    desk.trouble = None
    assert deliver(collector, munge.credential(told())) == "ok"


def test_who_connects_and_says_nothing_keeps_nobody_waiting(munge, collector):
    with ExitStack() as stack:
        for _ in range(50):
            stack.enter_context(socket.create_connection(collector.address, timeout=60.0))
        assert deliver(collector, munge.credential(told())) == "ok"


def test_one_address_that_fills_all_it_may_have_with_silence_keeps_no_record_out(munge, desk, collector):
    with ExitStack() as stack:
        for _ in range(3 * PER_ADDRESS):
            stack.enter_context(socket.create_connection(collector.address, timeout=60.0)).sendall(b"MUNGE:")
        assert deliver(collector, munge.credential(told())) == "ok"


def test_many_addresses_that_fill_all_there_is_with_silence_keep_no_record_out(munge, desk, collector):
    with ExitStack() as stack:
        for number in range(CONVERSATIONS + 100):
            source = (f"127.0.1.{1 + number % 40}", 0)
            stack.enter_context(socket.create_connection(collector.address, timeout=60.0, source_address=source))
        assert deliver(collector, munge.credential(told())) == "ok"


def test_an_address_has_one_record_opened_at_a_time_and_keeps_no_other_waiting(munge, desk, tmp_path):
    gate, slow = tmp_path / "gate", tmp_path / "unmunge"
    wait = f"case $line in *garbage*) while [ ! -e {gate} ]; do sleep 0.05; done;; esac"
    unmunge = f'printf \'%s\\n\' "$line" | unmunge --socket={munge.socket} "$@"'
    slow.write_text(f"#!/bin/sh\nread -r line\n{wait}\n{unmunge}\n")
    slow.chmod(0o755)
    desk.addresses["n1"].add("127.0.0.9")
    with ExitStack() as stack:
        made = ProfileReceiver(("127.0.0.1", 0), desk.receiver(), ManualClock(NOW_S), unmunge=[str(slow)])
        stack.callback(made.close)
        made.start()
        for _ in range(PER_ADDRESS + 5):
            stack.enter_context(socket.create_connection(made.address, timeout=60.0)).sendall(b"MUNGE:garbage:\n")
        other = socket.create_connection(made.address, timeout=60.0, source_address=("127.0.0.9", 0))
        stack.enter_context(other).sendall(munge.credential(told()))
        assert other.makefile().readline() == "ok\n"
        gate.touch()


def test_without_unmunge_records_wait(munge, desk):
    lost = ProfileReceiver(("127.0.0.1", 0), desk.receiver(), ManualClock(NOW_S), unmunge=["/nonexistent/unmunge"])
    lost.start()
    try:
        assert deliver(lost, munge.credential(told())).startswith("later: unmunge did not answer")
    finally:
        lost.close()


def test_an_address_that_is_taken_is_an_error_of_the_settings(desk, collector):
    with pytest.raises(ConfigError, match=r"profile.listen: opening 127.0.0.1 port \d+: Address already in use"):
        ProfileReceiver(collector.address, desk.receiver(), ManualClock())


def test_an_address_is_read():
    assert parse_listen("") is None
    assert parse_listen("10.0.0.1:9818") == ("10.0.0.1", 9818)
    assert parse_listen("[::]:9818") == ("::", 9818)
    for text in ("9818", "10.0.0.1", "head:9818", "10.0.0.1:99999", "10.0.0.1:x"):
        with pytest.raises(ConfigError, match=r"profile.listen = .*; accepted: ADDRESS:PORT"):
            parse_listen(text)


def running(*where):
    return job_table(len(where), job_id=[7] * len(where), node_list=Labels.of(where))


def test_where_a_job_ran_is_remembered_through_a_requeue():
    seen = JobPlacements()
    assert seen.ran(7, "n1") is None
    seen.observe(running("n[1-3]"))
    assert (seen.ran(7, "n3"), seen.ran(7, "n4"), seen.ran(8, "n1")) == (True, False, None)
    seen.observe(running("n[4-6]"))
    assert (seen.ran(7, "n3"), seen.ran(7, "n4")) == (True, True)


def test_of_a_job_that_completes_only_the_nodes_named_are_known():
    seen, left = JobPlacements(), running("n2")
    seen.observe(replace(left, state=np.array([JobState.COMPLETING])))
    assert (seen.ran(7, "n2"), seen.ran(7, "n1"), seen.ran(7, "n3")) == (True, None, None)
    seen.observe(replace(running("n[1-2]"), state=np.array([JobState.COMPLETED])))
    assert (seen.ran(7, "n1"), seen.ran(7, "n3")) == (True, False)


def test_a_job_without_nodes_is_not_known_yet():
    seen = JobPlacements()
    seen.observe(running(""))
    assert seen.ran(7, "n1") is None


def test_a_job_that_was_over_for_an_hour_when_others_were_seen_never_comes():
    seen = JobPlacements()
    assert not seen.gone(7, -1e9), "nobody has looked yet"
    seen.observe(running("n1"))
    seen.note_scan(10_000.0)
    assert [seen.gone(8, end_s) for end_s in (6_399.0, 6_401.0)] == [True, False]
    assert not seen.gone(7, 0.0)


def test_only_the_latest_jobs_are_remembered():
    seen = JobPlacements(most=2)
    for job_id in (1, 2, 3):
        seen.observe(job_table(1, job_id=[job_id], node_list=Labels.of(["n1"])))
    assert [seen.ran(job_id, "n1") for job_id in (1, 2, 3)] == [None, True, True]


PROGRESS = {"version": 1, "job_id": 7, "restart": 0, "node": "n1", "progress": 120, "loss": 0.25, "accuracy": None}


@pytest.mark.parametrize(
    ("answer", "said", "result"),
    [
        (False, "ok", "ok"),
        (True, "stop: the training has what stop= asks for", "stop"),
        (ReportedEarly(7.2), "later: 8", "later"),
        (ReportRefused("user", "job 7 is not of user 65534"), "refused: job 7 is not of user 65534", "user"),
    ],
)
def test_a_report_of_a_user_is_answered_with_what_the_job_is_to_do(munge, desk, collector, answer, said, result):
    desk.answer = answer
    assert deliver(collector, munge.credential(json.dumps(PROGRESS).encode(), user="nobody")) == said
    ((report, uid),) = desk.reports
    assert uid == pwd.getpwnam("nobody").pw_uid
    assert (report.job_id, report.iteration, report.loss) == (7, 120, 0.25)
    assert math.isnan(report.accuracy)
    assert desk.counted_reports == [result]
    assert desk.counted == desk.kept == []


@pytest.mark.parametrize(
    ("changes", "said", "result"),
    [
        ({"node": "n2"}, "refused: .* is not known as an address of node n2", "host"),
        ({"accuracy": 2}, r"refused: accuracy = 2.0; accepted: 0 to 1", "record"),
        ({"noise": -1}, r"refused: noise = -1.0; accepted: samples above 0", "record"),
        ({"progress": "all"}, "refused: progress = 'all'; accepted: 0 to 1000000000000", "record"),
    ],
)
def test_a_report_from_elsewhere_or_of_nonsense_reaches_nobody(munge, desk, collector, changes, said, result):
    answer = deliver(collector, munge.credential(json.dumps(PROGRESS | changes).encode(), user="nobody"))
    assert re.fullmatch(said, answer)
    assert desk.reports == []
    assert desk.counted_reports == [result]


def test_a_user_delivers_no_record_of_a_node_in_the_clothes_of_a_report(munge, desk, collector):
    large = json.dumps(PROGRESS | {"more": "x" * 2000}).encode()
    for payload in (told(), large):
        answer = deliver(collector, munge.credential(payload, user="nobody"))
        assert answer.startswith("refused: user 65534 sent the record")
    assert desk.reports == desk.kept == []


def test_a_report_is_not_counted_twice(munge, desk, collector):
    line = munge.credential(json.dumps(PROGRESS).encode(), user="nobody")
    assert deliver(collector, line) == "ok"
    assert deliver(collector, line) == "later: Replayed credential (17)"
    assert len(desk.reports) == 1
