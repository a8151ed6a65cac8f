"""Whom a client trusts, what it shows whom, and what it says when nothing comes."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress

import pytest
from certificates import Authority
from munge_worlds import munged
from remote_worlds import Door, private_handlers

from slurmsched.config import RemoteSettings
from slurmsched.daemon.api.query_arguments import AnswerRefused
from slurmsched.daemon.api.query_protocol import DaemonUnreachable
from slurmsched.daemon.api.remote_client import RemoteDaemon, query_remote
from slurmsched.errors import ConfigError

QUEUE = {"ask": "queue"}


@pytest.fixture(scope="module")
def munge():
    with munged() as ours:
        yield ours


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return Authority.of(tmp_path_factory.mktemp("site"))


@pytest.fixture
def door(munge, site):
    certificate, key = site.issue("localhost", "127.0.0.1")
    settings = RemoteSettings("127.0.0.1:0", certificate, key, client_ca=site.file, services=("portal.example.org",))
    with opened(Door(settings, private_handlers(), munge.unmunge)) as made:
        yield made


@contextmanager
def opened(door):
    try:
        yield door.open()
    finally:
        door.close()


def ids(answer):
    return [row["job_id"] for row in answer["queue"]]


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_client_asks_as_its_own_user(door, site, munge, host):
    asked = query_remote(door.daemon(site.file, host, munge_socket=str(munge.socket)), QUEUE)
    assert ids(asked) == [9]


def test_a_service_asks_for_a_user(door, site):
    certificate, key = site.issue("portal.example.org")
    portal = {"certificate": certificate, "key": key}
    assert ids(query_remote(door.daemon(site.file, user="nobody", **portal), QUEUE)) == [7]
    with pytest.raises(AnswerRefused, match="SLURMSCHED_AS"):
        query_remote(door.daemon(site.file, **portal), QUEUE)


def test_a_refusal_comes_in_the_daemons_words(door, site, munge):
    with pytest.raises(AnswerRefused, match='"ask" is one of'):
        query_remote(door.daemon(site.file, munge_socket=str(munge.socket)), {"ask": "models"})


def test_a_server_of_another_authority_another_name_or_another_time_gets_no_proof(door, site, munge, tmp_path):
    foreign = Authority.of(tmp_path / "foreign")
    with pytest.raises(DaemonUnreachable, match=r"is not trusted: .*see client\.ca"):
        query_remote(door.daemon(foreign.file, token="secret"), QUEUE)
    certificate, key = site.issue("elsewhere.example.org")
    other = Door(RemoteSettings("127.0.0.1:0", certificate, key), private_handlers(), munge.unmunge)
    with opened(other), pytest.raises(DaemonUnreachable, match=r"is not trusted: .*mismatch"):
        query_remote(other.daemon(site.file), QUEUE)
    certificate, key = site.issue("127.0.0.1", expired=True)
    late = Door(RemoteSettings("127.0.0.1:0", certificate, key), private_handlers(), munge.unmunge)
    with opened(late), pytest.raises(DaemonUnreachable, match="expired"):
        query_remote(late.daemon(site.file), QUEUE)
    assert not other.results.keys() - {"tls"}


class Listening:
    """A program on loopback that greets like a daemon, and notes what comes."""

    def __init__(self, greeting: bytes) -> None:
        self._greeting, self.heard = greeting, b""
        self._server = socket.create_server(("127.0.0.1", 0))
        self.name = f"127.0.0.1:{self._server.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        stream, _ = self._server.accept()
        with stream, suppress(OSError):  # a client hangs up on what it does not understand
            stream.sendall(self._greeting)
            stream.shutdown(socket.SHUT_WR)
            while chunk := stream.recv(65536):
                self.heard += chunk

    def close(self) -> None:
        self._thread.join(60.0)
        self._server.close()


def test_without_tls_no_token_leaves_the_client():
    listening = Listening(b'{"schema": "slurmsched/1", "nonce": "0", "accepts": ["token"]}\n')
    with pytest.raises(AnswerRefused, match="needs a token"):
        query_remote(RemoteDaemon(listening.name, token="secret"), QUEUE)
    listening.close()
    assert listening.heard == b""


@pytest.mark.parametrize("greeting", [b"", b"\n", b"SSH-2.0\r\n", b"{}\n", b"x" * 10_000, b'{"schema": "slurmsched/1"'])
def test_another_program_on_the_port_is_no_daemon(greeting):
    listening = Listening(greeting)
    with pytest.raises(DaemonUnreachable):
        query_remote(RemoteDaemon(listening.name), QUEUE)
    listening.close()
    assert listening.heard == b""


def test_a_daemon_that_is_not_there_or_says_nothing_is_reported(door):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        name = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(DaemonUnreachable, match=r"no answer within 0\.2 s"):
            query_remote(RemoteDaemon(name), QUEUE, timeout_s=0.2)
    with pytest.raises(DaemonUnreachable, match="is the slurmsched service running"):
        query_remote(RemoteDaemon(name), QUEUE)
    with pytest.raises(DaemonUnreachable, match="no answer within"):  # it waits for a handshake
        query_remote(door.daemon(), QUEUE, timeout_s=0.2)


def test_without_munged_a_client_says_so(door, site):
    with pytest.raises(AnswerRefused, match="munge gave no credential"):
        query_remote(door.daemon(site.file, munge_socket="/nonexistent"), QUEUE)


@pytest.mark.parametrize("server", ["", "host", "host:", ":9819", "host:http", "host:0", "host:65536"])
def test_a_server_is_a_host_and_a_port(server):
    with pytest.raises(ConfigError, match="HOST:PORT"):
        query_remote(RemoteDaemon(server), QUEUE)


@pytest.mark.parametrize(
    ("server", "ca", "encrypted"),
    [
        ("127.0.0.1:1", "", False),
        ("[::1]:1", "", False),
        ("127.0.0.1:1", "/ca.pem", True),
        ("localhost:1", "", True),
        ("10.0.0.1:1", "", True),
    ],
)
def test_only_an_address_of_this_host_is_asked_without_tls(server, ca, encrypted):
    assert RemoteDaemon(server, ca=ca).encrypted is encrypted


def test_a_token_is_not_shown_with_the_daemon():
    assert "secret" not in repr(RemoteDaemon("login:1", token="secret"))
