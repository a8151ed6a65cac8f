"""Records of nodes and reports of jobs with Slurm's tokens, through the door for other hosts."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from certificates import Authority
from profile_worlds import NOW_S, gpu, record
from remote_worlds import Door, asked, private_handlers

from slurmsched import job
from slurmsched.clock import ManualClock
from slurmsched.cluster.records.profiles import NodeProfile
from slurmsched.config import RemoteSettings
from slurmsched.daemon.profiles.profile_receiver import Receiver, RecordIntake
from slurmsched.daemon.profiles.progress_report import ProgressReport
from slurmsched.prolog import deliver

jwt = pytest.importorskip("jwt")

SECRET, OTHER = b"k" * 32, b"o" * 32
NODE_USER = "daemon"
PROGRESS = {"version": 1, "job_id": 7, "restart": 0, "node": "n1", "progress": 120, "loss": 0.25, "accuracy": None}


def token(secret: bytes = SECRET, **changes: object) -> str:
    return jwt.encode({"exp": int(time.time()) + 3600, "sun": NODE_USER} | changes, secret, algorithm="HS256")


@dataclass
class Site:
    """A door that takes records of node n1, and what it took."""

    addresses: set[str] = field(default_factory=lambda: {"127.0.0.1"})
    profiles: list[NodeProfile] = field(default_factory=list)
    reports: list[tuple[int, int]] = field(default_factory=list)
    node_user: str = NODE_USER

    def report(self, report: ProgressReport, uid: int) -> bool:
        self.reports.append((report.iteration, uid))
        return report.iteration > 1000

    def intake(self) -> RecordIntake:
        receiver = Receiver(
            addresses=lambda node: frozenset(self.addresses if node == "n1" else ()),
            ran=lambda job_id, node: job_id == 7,
            save=self.profiles.append,
            report=self.report,
        )
        return RecordIntake(receiver, ManualClock(NOW_S), lambda: self.node_user)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority.of(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def settings(authority, tmp_path_factory):
    certificate, private = authority.issue("127.0.0.1")
    key = tmp_path_factory.mktemp("key") / "jwt_hs256.key"
    key.write_bytes(SECRET)
    key.chmod(0o600)
    portal = {"client_ca": authority.file, "services": ("portal.example.org",)}
    return RemoteSettings("127.0.0.1:0", certificate, private, munge=False, token_key=str(key), **portal)


@pytest.fixture
def site():
    return Site()


@pytest.fixture
def door(settings, site):
    opened = Door(settings, private_handlers(), intake=site.intake()).open()
    yield opened
    opened.close()


def delivery(**changes):
    return {"ask": "deliver", "record": record(**changes)}


def test_a_record_with_the_token_of_the_nodes_user_or_of_root_is_kept(door, site):
    for name in (NODE_USER, "root"):
        assert asked(door, {"token": token(sun=name), "request": delivery()})["answer"] == "ok"
    assert [(profile.job_id, profile.node) for profile in site.profiles] == [(7, "n1")] * 2
    assert door.results == {"delivered": 2}


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: token(OTHER), "forged"),
        (lambda: token(exp=int(time.time()) - 1), "has expired"),
        (lambda: token(aud="another service"), "InvalidAudience"),
        (lambda: token(sun="nobody at all"), "no user"),
        (lambda: "", "not valid here"),
    ],
    ids=["forged", "expired", "foreign", "unknown", "none"],
)
def test_a_record_without_a_valid_token_is_refused(door, site, made, message):
    assert message in asked(door, {"token": made(), "request": delivery()})["error"]
    assert site.profiles == []


def test_a_token_of_any_other_user_delivers_no_record(door, site):
    answer = asked(door, {"token": token(sun="nobody"), "request": delivery()})["answer"]
    assert answer.startswith("refused: user ")
    site.node_user = ""
    assert asked(door, {"token": token(), "request": delivery()})["answer"].startswith("refused: user ")
    assert site.profiles == []


def test_a_token_that_is_replayed_from_elsewhere_is_of_no_use(door, site):
    site.addresses = {"192.0.2.7"}
    answer = asked(door, {"token": token(), "request": delivery()})["answer"]
    assert answer == "later: 127.0.0.1 is not known as an address of node n1"
    assert site.profiles == []


@pytest.mark.parametrize("record", [None, [], "x", {"version": 2}, {"version": 1, "node": "n1"}], ids=str)
def test_nonsense_is_refused_for_good(door, site, record):
    request = {"ask": "deliver", "record": record}
    assert asked(door, {"token": token(), "request": request})["answer"].startswith("refused: ")
    assert site.profiles == []


def test_a_service_delivers_nothing(door, site, authority):
    certificate = authority.issue("portal.example.org")
    answer = asked(door, {"as": NODE_USER, "request": delivery()}, certificate=certificate)
    assert "only nodes and jobs" in answer["error"]
    assert site.profiles == []


def test_a_record_has_its_own_limit_and_a_question_keeps_its(door, site):
    wide = [gpu() | {"note": "x" * 1000} for _ in range(30)]
    assert asked(door, {"token": token(), "request": delivery(gpus=wide)})["answer"] == "ok"
    wide = [gpu() | {"note": "x" * 1000} for _ in range(45)]
    assert "at most 65536" in asked(door, {"token": token(), "request": delivery(gpus=wide)})["answer"]
    question = {"ask": "queue", "more": "x" * 5000}
    assert "at most 4096 bytes" in asked(door, {"token": token(), "request": question})["error"]
    assert len(site.profiles) == 1


def test_where_nothing_is_taken_deliver_is_no_request(settings):
    door = Door(settings, private_handlers()).open()
    try:
        assert '"ask" is one of' in asked(door, {"token": token(), "request": PROGRESS | {"ask": "deliver"}})["error"]
    finally:
        door.close()


def spool_environment(door, authority, tmp_path, secret=SECRET):
    """The environment of a delivery from a node with one record in its spool, and the file of the token."""
    spool, held = tmp_path / "spool", tmp_path / "node.token"
    spool.mkdir(mode=0o700)
    (spool / "7.n1.100.json").write_text(json.dumps(record()))
    held.touch(0o600)
    held.write_text(f"SLURM_JWT={token(secret)}\n")
    return {
        **os.environ,
        "SLURMSCHED_COLLECTOR": f"127.0.0.1:{door.server.address[1]}",
        "SLURMSCHED_COLLECTOR_CA": authority.file,
        "SLURMSCHED_TOKEN_FILE": str(held),
        "SLURMSCHED_SPOOL_DIR": str(spool),
    }


def run_delivery(environ):
    subprocess.run([sys.executable, "-I", deliver.__file__], env=environ, check=True)
    return sorted(os.listdir(environ["SLURMSCHED_SPOOL_DIR"]))


def test_a_node_without_munge_delivers_its_spool(door, site, authority, tmp_path):
    assert run_delivery(spool_environment(door, authority, tmp_path)) == []
    assert [profile.job_id for profile in site.profiles] == [7]


def test_a_node_keeps_what_its_token_cannot_prove(door, site, authority, tmp_path):
    assert run_delivery(spool_environment(door, authority, tmp_path, OTHER)) == ["7.n1.100.json"]
    assert site.profiles == []


def test_a_node_sends_no_token_to_a_daemon_of_another_authority_or_that_others_can_read(
    door, site, authority, tmp_path
):
    environ = spool_environment(door, authority, tmp_path)
    stranger = Authority.of(tmp_path / "stranger")
    assert run_delivery(environ | {"SLURMSCHED_COLLECTOR_CA": stranger.file}) == ["7.n1.100.json"]
    assert set(door.results) <= {"tls"}, "the handshake failed, or its end was not noticed yet"
    Path(environ["SLURMSCHED_TOKEN_FILE"]).chmod(0o640)
    assert run_delivery(environ) == ["7.n1.100.json"]
    assert site.profiles == []


def run_report(door, authority, tmp_path, iteration, **environ):
    conf = tmp_path / "node.conf"
    conf.write_text(f"COLLECTOR=127.0.0.1:{door.server.address[1]}\nCOLLECTOR_CA={authority.file}\n")
    known = {"SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n1", "SLURMSCHED_NODE_CONF": str(conf)} | environ
    done = subprocess.run(
        [sys.executable, job.__file__, "report", "--iteration", str(iteration)],
        env={name: value for name, value in os.environ.items() if not name.startswith("SLURM")} | known,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr.strip()


def test_a_job_reports_with_a_token_of_its_user(door, site, authority, tmp_path):
    own = {"SLURM_JWT": token(sun="nobody")}
    assert run_report(door, authority, tmp_path, 12, **own) == (1, "ok")
    code, answer = run_report(door, authority, tmp_path, 1200, **own)
    assert (code, answer.partition(":")[0]) == (0, "stop")
    assert site.reports == [(12, pwd.getpwnam("nobody").pw_uid), (1200, pwd.getpwnam("nobody").pw_uid)]


def test_a_job_without_a_valid_token_is_told_so(door, site, authority, tmp_path):
    code, answer = run_report(door, authority, tmp_path, 12)
    assert (code, answer) == (1, "refused: the job has no SLURM_JWT (scontrol token)")
    code, answer = run_report(door, authority, tmp_path, 12, SLURM_JWT=token(OTHER, sun="nobody"))
    assert code == 1
    assert "forged" in answer
    assert site.reports == []
