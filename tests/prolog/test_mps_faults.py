"""What MPS' log says of faults: the lines of a real GPU, drawn ones, cut and hostile ones; and whom each harmed."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmsched.prolog.mps_faults import (
    NOTHING,
    OWN,
    PARTNERS,
    READ_B,
    TOGETHER_S,
    Verdict,
    judged,
    lines_of,
    settle,
    verdict,
)

DATA = Path(__file__).parents[1] / "data/mps"
#: One H200 with driver 580: what happened to one of two clients, and whom it harmed as the exit codes showed.
SEEN = {
    "two_clients": "", "out_of_memory": "", "killed_between_kernels": "", "assertion": OWN,
    "illegal_address": PARTNERS, "misaligned_address": PARTNERS, "trap": PARTNERS, "killed_in_kernel": PARTNERS,
    "three_clients": PARTNERS, "server_killed": PARTNERS, "daemon_killed": "",
}  # fmt: skip


def of(body: bytes, since: int = 0) -> Verdict:
    return verdict(lines_of(io.BytesIO(body), since))


@pytest.mark.parametrize("name", SEEN)
def test_what_a_real_gpu_logged_is_judged_by_whom_it_harmed(name):
    assert of((DATA / f"{name}.log").read_bytes()).harm == SEEN[name]


@pytest.mark.parametrize(
    ("name", "harm"),
    [("illegal_address.background.server", PARTNERS), ("illegal_address.background.control", ""),
     ("server_killed.background.control", PARTNERS), ("server_killed.background.server", "")],
)  # fmt: skip
def test_of_a_daemon_in_the_background_each_file_tells_its_part(name, harm):
    assert of((DATA / f"{name}.log").read_bytes()).harm == harm


@pytest.mark.parametrize("name", SEEN)
def test_before_the_fault_and_after_it_no_log_tells_of_one(name):
    body = (DATA / f"{name}.log").read_bytes()
    start = body.index(b"NEW SERVER")
    assert of(body[:start]) == NOTHING
    assert of(body, len(body)) == NOTHING


STAMP = b"[2026-11-27 13:18:%02d.%03d %s  4711] "


class Log:
    """Lines of a server as MPS writes them, some time apart."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.ms = 0

    def say(self, text: str, who: bytes = b"Server", after_ms: int = 1) -> None:
        self.ms = min(59_999, self.ms + after_ms)
        self.lines.append(STAMP % (self.ms // 1000, self.ms % 1000, who) + text.encode() + b"\n")


EPISODES = st.lists(
    st.tuples(
        st.sampled_from(["end", "lone reset", "reset", "fatal", "lone fatal", "killed", "died", "stopped"]),
        st.integers(2, 4),
        st.integers(1, 99_999),
    ),
    max_size=6,
)
NOISE = st.lists(
    st.one_of(
        st.binary(max_size=80),
        st.sampled_from(
            [
                b"Server 5 exited with status 1",
                b"[2026-11-27 13:18:01.000 Server  4711] xServer is handling a fatal GPU error.",
                b"[2026-11-27 13:18:01.000 Control   687] 641 1 4711 /home/a/Server 5 exited with status 1",
                b"[2026-11-27 13:18:01.000 Control   687] User did not send valid credentials",
                b"[2026-11-27 13:18:01.000 Somebody  1] Server is handling a fatal GPU error.",
            ]
        ),
    ).map(lambda line: line.replace(b"\n", b" ") + b"\n"),
    max_size=8,
)


def written(episodes) -> tuple[list[bytes], str]:
    """The lines of these episodes one after the other, and whom they harmed at worst."""
    log, harms = Log(), [""]
    for number, (kind, clients, pid) in enumerate(episodes):
        log.say("Accepting connection...", b"Control", after_ms=2000)
        server = 5000 + number
        gone = f"Client {{PID: {pid}, Context ID: 1}} exiting."
        if kind in ("end", "killed"):
            log.say(f"{gone} Number of active client contexts is {clients - 1}.")
        if kind in ("reset", "lone reset"):
            left = 0 if kind == "lone reset" else clients - 1
            log.say(f"{gone} Worker is in reset. Number of active client contexts is {left}.")
            harms.append(OWN if left else "")
        if kind in ("fatal", "lone fatal", "killed"):
            log.say("Server is handling a fatal GPU error.", after_ms=100)
            for other in range(1 if kind != "fatal" else 0, clients if kind != "lone fatal" else 2):
                log.say(f"Client {{PID: {pid + other}, Context ID: 1}} on device 0 to be torn down")
            harms.append(OWN if kind == "lone fatal" else PARTNERS)
        if kind == "stopped":
            log.say(f"Try shutting down server {server}, backoff is disabled", b"Control")
        if kind in ("stopped", "died"):
            log.say(f"Server {server} exited with status 0", b"Control")
            harms.append(PARTNERS if kind == "died" else "")
    return log.lines, max(harms)


@given(EPISODES)
def test_of_many_episodes_the_worst_counts(episodes):
    lines, harm = written(episodes)
    assert verdict(lines).harm == harm


@given(EPISODES, NOISE, st.randoms(use_true_random=False))
def test_foreign_and_hostile_lines_among_them_change_nothing(episodes, noise, random):
    lines, harm = written(episodes)
    mixed = list(lines)
    for line in noise:
        mixed.insert(random.randint(0, len(mixed)), line)
    assert verdict(mixed).harm == harm
    assert len(verdict(mixed).text) <= 200


@given(EPISODES, st.data())
def test_a_log_cut_anywhere_tells_no_more_than_the_whole(episodes, data):
    lines, harm = written(episodes)
    body = b"".join(lines)
    start = data.draw(st.integers(0, len(body)))
    end = data.draw(st.integers(start, len(body)))
    whole = len(lines) if end == len(body) else body[:end].count(b"\n")
    cut = of(body[:end])
    assert cut.harm in {verdict(lines[:whole]).harm, verdict(lines[: whole + 1]).harm}
    stops = any(kind in ("stopped", "killed", "fatal") for kind, *_ in episodes)
    assert stops or of(body[:end], start).harm <= harm


def test_a_long_log_is_read_to_its_end_and_a_huge_one_only_there(tmp_path):
    calm = written([("end", 2, 7)] * 5)[0] * 17_000
    fault = b"".join(written([("fatal", 2, 7)])[0])
    body = b"".join(calm)
    assert len(body) > 10_000_000
    assert of(fault + body).harm == of(body + fault).harm == PARTNERS
    huge = tmp_path / "huge"
    with huge.open("wb") as file:
        file.write(fault)
        file.truncate(100 * READ_B)
        file.seek(0, io.SEEK_END)
        file.write(b"\n" + b"".join(written([("reset", 2, 7)])[0]))
    with huge.open("rb") as file:
        assert verdict(lines_of(file, 0)).harm == OWN


def test_a_log_that_became_shorter_is_read_from_its_start():
    fault = b"".join(written([("fatal", 2, 7)])[0])
    assert of(fault, 10 * len(fault)).harm == PARTNERS


def test_a_line_that_never_ends_costs_no_memory():
    class Endless(io.RawIOBase):
        asked = 0

        def readable(self) -> bool:
            return True

        def seekable(self) -> bool:
            return True

        def tell(self) -> int:
            return self.asked

        def seek(self, at: int, whence: int = 0) -> int:
            self.asked = READ_B if whence == 2 else at
            return self.asked

        def readline(self, size: int = -1) -> bytes:
            assert 0 < size <= 4096
            self.asked += size
            return b"x" * size

    assert verdict(lines_of(Endless(), 0)) == NOTHING


FATAL = Verdict(PARTNERS, "fatal", by_cancel=True)
RESET = Verdict(OWN, "in reset")
FAILED, CANCELLED = 256, 15


@pytest.mark.parametrize(
    ("note", "found", "status", "harm"),
    [
        ({}, NOTHING, FAILED, ""),
        ({}, FATAL, FAILED, PARTNERS),
        ({}, FATAL, 0, PARTNERS),
        ({}, FATAL, None, PARTNERS),
        ({}, FATAL, CANCELLED, ""),
        ({}, FATAL, (128 + 15) << 8, ""),
        ({}, Verdict(PARTNERS, "the control daemon has ended"), CANCELLED, PARTNERS),
        ({}, RESET, FAILED, OWN),
        ({}, RESET, 0, ""),
        ({}, RESET, None, ""),
        ({}, RESET, CANCELLED, ""),
        ({"fault": "stored"}, NOTHING, FAILED, PARTNERS),
        ({"fault": "stored", "by_cancel": True}, NOTHING, CANCELLED, ""),
        ({"own": {"fault": "stored", "with": [8]}}, NOTHING, FAILED, OWN),
        ({"own": {"fault": "stored", "with": [8]}}, NOTHING, 0, ""),
        ({"shaken": {"by": 8, "at_s": 100.0, "fault": "reset", "with": [8]}}, NOTHING, FAILED, PARTNERS),
        ({"shaken": {"by": 8, "at_s": 100.0, "fault": "reset", "with": [8]}}, NOTHING, 0, ""),
        ({"shaken": {"by": 8, "at_s": 90.0 - TOGETHER_S, "fault": "reset", "with": [8]}}, NOTHING, FAILED, ""),
    ],
)
def test_the_end_of_a_job_and_the_log_together_say_whom_its_fault_harmed(note, found, status, harm):
    assert judged(note, found, status, 103.0)[0] == harm


def test_a_fault_of_a_job_that_has_left_is_kept_apart_from_the_faults_of_its_partners():
    note = {"with": [7]}
    settle(note, RESET, 7, 50.0)
    assert judged(note, NOTHING, FAILED, 52.0) == (PARTNERS, {"fault": "2 s after job 7: in reset", "with": [7]})
    other = {"with": [9]}
    settle(other, RESET, 7, 50.0)
    assert judged(other, NOTHING, FAILED, 52.0) == (OWN, {"fault": "in reset", "with": [9]})
