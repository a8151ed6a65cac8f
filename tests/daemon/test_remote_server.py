"""Who may ask from other hosts, and what they get: munge credentials, certificates, floods."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from certificates import Authority
from daemon_worlds import wait_until
from munge_worlds import munged
from profile_worlds import record
from remote_worlds import Caller, Door, asked, private_handlers

from slurmsched.config import RemoteSettings
from slurmsched.daemon.api.query_protocol import REQUEST_B
from slurmsched.daemon.api.remote_server import LINE_B, PER_HOST, PER_USER
from slurmsched.daemon.profiles.profile_record import BadRecord, opened
from slurmsched.errors import ConfigError, LabError


@pytest.fixture(scope="module")
def munge():
    with munged() as ours:
        yield ours


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The authority of servers and services."""
    return Authority.of(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def server_files(site):
    return site.issue("localhost", "127.0.0.1")


@pytest.fixture
def serve(munge, site, server_files):
    """Opens doors; every one is closed, and leaves no thread."""
    with ExitStack() as stack:

        def opened_door(tls=True, patience_s=60.0, handlers=None, **changes):
            certificate, key = server_files if tls else ("", "")
            settings = RemoteSettings(listen="127.0.0.1:0", certificate=certificate, key=key)
            door = Door(replace(settings, **changes), handlers or private_handlers(), munge.unmunge, patience_s).open()
            stack.callback(door.close)
            return door

        yield opened_door
    assert "remote" not in [thread.name for thread in threading.enumerate()]


def by_munge(munge, request, user="nobody", *options, **changed):
    """What makes an honest envelope of *user*, or one with a payload *changed*."""

    def envelope(caller):
        credential = munge.credential(caller.payload(request, **changed), *options, user=user)
        return {"munge": credential.decode().strip()}

    return envelope


QUEUE = {"ask": "queue"}


def ids(answer):
    return [row["job_id"] for row in answer["queue"]]


@pytest.mark.parametrize("tls", [True, False])
@pytest.mark.parametrize(("user", "job_id"), [("nobody", 7), ("daemon", 8)])
def test_a_munge_credential_shows_its_users_own_jobs_alone(serve, munge, tls, user, job_id):
    door = serve(tls)
    assert ids(asked(door, by_munge(munge, QUEUE, user))) == [job_id]
    assert "not yours" in asked(door, by_munge(munge, {"ask": "why", "job_id": 15 - job_id}, user))["error"]
    assert door.results == {"answered": 2}


def test_root_of_another_host_is_no_operator(serve, munge):
    assert ids(asked(serve(), by_munge(munge, QUEUE, "root"))) == [9]


def test_a_user_in_the_request_is_of_no_effect(serve, munge):
    request = {"ask": "queue", "uid": 0, "user": "root", "as": "root"}
    assert ids(asked(serve(), by_munge(munge, request))) == [7]


def test_a_credential_counts_once(serve, munge):
    door = serve()
    with Caller(door) as caller:
        envelope = by_munge(munge, QUEUE)(caller)
        caller.send(envelope)
        assert ids(caller.answer()) == [7]
    assert "refused: Replayed credential" in asked(door, envelope)["error"]
    assert door.results == {"answered": 1, "credential": 1}


def test_a_credential_that_was_taken_before_it_was_used_is_of_no_use_on_another_connection(serve, munge):
    door = serve(tls=False)
    with Caller(door) as victim:
        envelope = by_munge(munge, QUEUE)(victim)
    assert "another connection" in asked(door, envelope)["error"]
    assert door.results == {"binding": 1}


def test_a_credential_for_another_server_is_refused(serve, munge):
    door = serve()
    assert "another server" in asked(door, by_munge(munge, QUEUE, door="0" * 64))["error"]
    assert "another server" in asked(door, by_munge(munge, QUEUE, door=""))["error"]
    assert "another server" in asked(door, by_munge(munge, QUEUE, door=None))["error"]


@pytest.mark.parametrize("payload", [b"", b"[1]", b'{"ask": "queue"}', json.dumps(record()).encode()])
def test_a_credential_made_for_another_purpose_is_refused(serve, munge, payload):
    door = serve()
    answer = asked(door, {"munge": munge.credential(payload, user="nobody").decode().strip()})
    assert "another purpose" in answer["error"]
    assert door.results == {"binding": 1}


def test_a_credential_made_for_this_door_is_no_record_of_a_node(serve):
    with Caller(serve()) as caller, pytest.raises(BadRecord):
        opened(caller.payload(QUEUE))


def test_a_credential_of_another_realm_is_refused(serve, munge):
    door = serve()
    with munged() as foreign:
        assert "the munge credential was refused" in asked(door, by_munge(foreign, QUEUE))["error"]
    assert door.results == {"credential": 1}


def test_an_expired_credential_is_refused(serve, munge):
    door = serve()

    def late(caller):
        envelope = by_munge(munge, QUEUE, "nobody", "--ttl=1")(caller)
        wait_until(lambda: b"Expired" in munge.verdict(envelope["munge"].encode()))
        return envelope

    assert "refused: Expired credential" in asked(door, late)["error"]


def test_a_forged_credential_is_refused(serve, munge):
    door = serve()

    def forged(caller):
        text = by_munge(munge, QUEUE)(caller)["munge"]
        place = len(text) // 2
        return {"munge": text[:place] + ("A" if text[place] != "A" else "B") + text[place + 1 :]}

    assert "the munge credential was refused" in asked(door, forged)["error"]


def test_a_user_without_a_name_here_is_refused(serve, munge):
    nameless = 4_000_000_001

    def envelope(caller):
        return {"munge": munge.credential(caller.payload(QUEUE), uid=nameless).decode().strip()}

    door = serve()
    assert f"uid {nameless} has no name" in asked(door, envelope)["error"]
    assert door.results == {"user": 1}


@pytest.mark.parametrize(
    ("line", "result"),
    [
        (b"\n", "line"),
        (b"garbage\n", "line"),
        (b"[" * 5000 + b"\n", "line"),
        (b"[]\n", "line"),
        (b"{}\n", "identity"),
        (b'{"ask": "queue"}\n', "identity"),
        (b'{"request": {"ask": "queue"}, "as": "nobody"}\n', "identity"),
        (b'{"request": {"ask": "queue"}, "uid": 0}\n', "identity"),
        (b'{"token": "x.y.z", "request": {"ask": "queue"}}\n', "identity"),
        (b'{"munge": "x", "token": "x", "request": {}}\n', "identity"),
        (b'{"munge": 7}\n', "credential"),
        (b'{"munge": "MUNGE:x:\\nMUNGE:y:"}\n', "credential"),
        (b'{"munge": "--help"}\n', "credential"),
        (b'{"munge": "MUNGE:AAAA:"}\n', "credential"),
    ],
)
def test_no_proof_is_refused_with_a_reason_and_counted(serve, line, result):
    door = serve()
    assert asked(door, line)["error"]
    assert door.results == {result: 1}


def test_a_line_and_a_request_have_bounds(serve, munge):
    door = serve()
    assert f"at most {LINE_B} bytes" in asked(door, b"x" * (LINE_B + 1))["error"]
    long = {"ask": "queue", "text": "x" * REQUEST_B}
    assert f"at most {REQUEST_B} bytes" in asked(door, by_munge(munge, long))["error"]
    assert door.results == {"line": 2}


def test_what_users_commands_do_not_ask_is_for_the_daemons_own_host(serve, munge):
    door = serve()
    assert 'from another host "ask" is one of' in asked(door, by_munge(munge, {"ask": "models"}))["error"]
    assert asked(door, by_munge(munge, {"ask": ["queue"]}))["error"]
    assert door.results == {"request": 2}


def test_without_munged_everybody_is_refused(serve, munge):
    door = Door(RemoteSettings(listen="127.0.0.1:0"), private_handlers(), ["/nonexistent/unmunge"]).open()
    try:
        assert "unmunge did not answer" in asked(door, by_munge(munge, QUEUE))["error"]
        assert door.results == {"munge": 1}
    finally:
        door.close()


# Services


@pytest.fixture
def portal(site):
    return site.issue("portal.example.org")


@pytest.fixture
def for_services(serve, site):
    return serve(client_ca=site.file, services=("portal.example.org",))


def test_a_listed_service_speaks_for_a_user(for_services, portal):
    envelope = {"as": "daemon", "request": QUEUE}
    assert ids(asked(for_services, envelope, certificate=portal)) == [8]


@pytest.mark.parametrize(
    "envelope",
    [
        {"as": "root", "request": QUEUE},
        {"as": "nobody at all", "request": QUEUE},
        {"as": "nobody\0", "request": QUEUE},
        {"as": 1, "request": QUEUE},
        {"as": None, "request": QUEUE},
        {"request": QUEUE},
        {"as": "daemon", "request": QUEUE, "munge": "MUNGE:x:"},
    ],
)
def test_a_service_names_one_user_who_is_known_here_and_not_root(for_services, portal, envelope):
    assert asked(for_services, envelope, certificate=portal)["error"]
    assert for_services.results == {"user": 1}


def test_a_certificate_of_the_same_authority_that_is_not_listed_is_refused(for_services, site):
    other = site.issue("node17.example.org")
    assert (
        "not that of a service" in asked(for_services, {"as": "daemon", "request": QUEUE}, certificate=other)["error"]
    )
    assert for_services.results == {"certificate": 1}


def test_a_certificate_is_of_no_use_where_no_service_is_listed(serve, munge, portal):
    door = serve()  # asks no client for one
    assert "one proof" in asked(door, {"as": "daemon", "request": QUEUE}, certificate=portal)["error"]
    assert ids(asked(door, by_munge(munge, QUEUE), certificate=portal)) == [7]


@pytest.mark.parametrize("kind", ["foreign", "expired"])
def test_a_foreign_or_expired_certificate_ends_the_handshake(for_services, site, tmp_path, kind):
    authority = Authority.of(tmp_path / "foreign") if kind == "foreign" else site
    files = authority.issue("portal.example.org", expired=kind == "expired")
    with pytest.raises(OSError):  # noqa: PT011 - an alert or a reset, as the bytes cross
        asked(for_services, {"as": "daemon", "request": QUEUE}, certificate=files)
    wait_until(lambda: for_services.results == {"tls": 1})


def test_users_ask_by_munge_beside_services(for_services, munge):
    assert ids(asked(for_services, by_munge(munge, QUEUE))) == [7]


# Settings


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"listen": "0.0.0.0:0"}, "through TLS only"),
        ({"listen": "[::]:0"}, "through TLS only"),
        ({"listen": "login1:9819"}, "does not appear to be an IPv4 or IPv6 address"),
        ({"listen": "127.0.0.1:99999"}, "no port"),
        ({"munge": False}, "nobody could ask"),
        ({"token_key": "/etc/passwd"}, r"remote\.token_key: needs TLS"),
        ({"services": ("portal",)}, r"remote\.services: needs TLS"),
        ({"certificate": "/nonexistent"}, "/nonexistent"),
    ],
)
def test_a_door_that_would_not_be_safe_is_not_opened(changes, message):
    with pytest.raises(ConfigError, match=message):
        Door(replace(RemoteSettings(listen="127.0.0.1:0"), **changes), private_handlers()).open()


def test_a_key_that_others_can_read_is_refused(site, server_files, tmp_path):
    certificate, key = server_files
    copy = tmp_path / "key"
    copy.write_bytes(Path(key).read_bytes())
    copy.chmod(0o644)
    with pytest.raises(ConfigError, match=r"remote\.key: .* is open to other users \(mode 0644\)"):
        Door(RemoteSettings("127.0.0.1:0", certificate, str(copy)), private_handlers()).open()


def test_a_certificate_of_another_key_is_refused(site, server_files, portal):
    with pytest.raises(ConfigError, match=r"remote\.certificate, remote\.key: .*KEY_VALUES_MISMATCH"):
        Door(RemoteSettings("127.0.0.1:0", server_files[0], portal[1]), private_handlers()).open()


def test_services_need_their_authority(site, server_files):
    with pytest.raises(ConfigError, match="needed together"):
        Door(RemoteSettings("127.0.0.1:0", *server_files, services=("portal",)), private_handlers()).open()


def test_a_renewed_certificate_is_used_after_a_reload_and_a_call_under_way_is_answered(serve, munge, site):
    door = serve()
    with Caller(door) as early:
        certificate, key = site.issue("127.0.0.1", "renewed.example.org")
        door.settings = replace(door.settings, certificate=certificate, key=key)
        door.server.renew()
        early.send(by_munge(munge, QUEUE)(early))
        assert ids(early.answer()) == [7]
        with Caller(door) as late:
            assert late.door != early.door


# Floods


def test_idle_connections_of_a_host_do_not_keep_its_users_out(serve, munge):
    door = serve()
    with ExitStack() as stack:
        for _ in range(PER_HOST + 10):  # none of them even begins a handshake
            stack.enter_context(socket.create_connection(door.server.address))
        assert ids(asked(door, by_munge(munge, QUEUE))) == [7]


def test_a_handshake_that_does_not_end_is_ended(serve):
    door = serve(patience_s=0.3)
    with socket.create_connection(door.server.address, timeout=60.0) as stream:
        stream.sendall(b"\x16\x03\x01")
        assert not _rest(stream)


def test_a_client_that_drips_its_request_gets_no_longer_than_any_other(serve):
    with Caller(serve(patience_s=0.5)) as caller:
        caller.send(b'{"mun')
        assert not _rest(caller.stream)


def test_a_client_that_never_reads_its_answer_is_dropped(serve, munge):
    length = 7 * 2**20
    handlers = private_handlers(status=lambda: {"text": "x" * length})
    for patience_s in (1.0, 5.0, 60.0):  # on a busy machine even the question may take longer
        door = serve(patience_s=patience_s, handlers=handlers)
        with suppress(OSError, LabError), Caller(door) as deaf:
            deaf.send(by_munge(munge, {"ask": "status"})(deaf))
            wait_until(lambda door=door: door.results["answered"], timeout_s=2 * patience_s)
            wait_until(lambda door=door: not door.server.visits)
            assert len(_rest(deaf.stream)) < length
            return
    pytest.fail("no client was answered and then dropped")


def test_a_user_has_a_bounded_number_of_requests_under_way(serve, munge):
    gate = threading.Event()

    def status():
        gate.wait(60.0)
        return {"mode": "observe"}

    door = serve(handlers=private_handlers(status=status))
    with ExitStack() as stack:
        stack.callback(gate.set)
        slow = [stack.enter_context(Caller(door)) for _ in range(PER_USER)]
        for caller in slow:
            caller.send(by_munge(munge, {"ask": "status"})(caller))
        wait_until(lambda: sum(door.server.visits.values()) == PER_USER)
        assert "too many of your questions" in asked(door, by_munge(munge, QUEUE))["error"]
        assert ids(asked(door, by_munge(munge, QUEUE, "daemon"))) == [8]
        gate.set()
        assert [caller.answer()["mode"] for caller in slow] == ["observe"] * PER_USER
    assert door.results["busy"] == 1


def _rest(stream) -> bytes:
    """All that still comes."""
    rest = b""
    try:
        while chunk := stream.recv(2**20):
            rest += chunk
    except OSError:
        pass
    return rest
