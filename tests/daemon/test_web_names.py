"""Users whom a proxy or the kernel names over HTTP: nobody else may name one, and each sees no more than himself."""

from __future__ import annotations

import http.client
import json
import os
import pwd
import socket
import subprocess
import sys
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import gettempdir

import pytest
from daemon_worlds import ask
from remote_worlds import private_handlers

from slurmsched.cli.daemon.web import forms
from slurmsched.config import WebSettings
from slurmsched.daemon.api.named_users import NamedUsers, named_users
from slurmsched.daemon.api.query_arguments import AnswerRefused
from slurmsched.daemon.api.query_protocol import SOCKET
from slurmsched.daemon.api.query_server import QueryServer
from slurmsched.errors import ConfigError

pytest.importorskip("flask")
pytest.importorskip("waitress")

from slurmsched.web.api import application
from slurmsched.web.identity import by_proxy
from slurmsched.web.unix_door import UnixDoor, uid_of_proxy

ME = os.getuid()
as_root = pytest.mark.skipif(ME != 0, reason="needs root, to be another user")


@contextmanager
def answers(directory, named, **sources):
    """A daemon's socket, with a private job each of nobody (7), daemon (8) and root (9); *named* may name users."""
    server = QueryServer(directory, private_handlers(**sources), named=lambda: named)
    server.start()
    with closing(server):
        yield directory / SOCKET


def jobs(path, **request):
    return [row["job_id"] for row in ask(path, {"ask": "queue", **request})["queue"]]


def test_a_named_user_sees_his_own_jobs_alone_and_never_as_root(tmp_path):
    with answers(tmp_path, NamedUsers(ME)) as path:
        assert jobs(path, **{"as": "daemon"}) == [8]
        assert jobs(path, **{"as": "nobody"}) == [7]
        for name in ("root", "no-such-user", "", 0, None, ["daemon"], "daemon\n"):
            with pytest.raises(AnswerRefused, match="is no user on the daemon's host in whose name is answered"):
                jobs(path, **{"as": name})


@pytest.mark.parametrize("named", [None, NamedUsers(ME + 1)])
def test_nobody_but_the_web_process_may_name_a_user_and_without_the_setting_nobody_may(tmp_path, named):
    with answers(tmp_path, named) as path, pytest.raises(AnswerRefused, match=r"may name a user \(web.user\)"):
        jobs(path, **{"as": "daemon"})


def test_only_questions_of_users_are_answered_in_the_name_of_one(tmp_path):
    with answers(tmp_path, NamedUsers(ME)) as path:
        for name in ("models", "history", "choices", "trial", "nothing", 3):
            with pytest.raises(AnswerRefused, match='"ask" is one of status, accuracy'):
                ask(path, {"ask": name, "as": "daemon"})


@pytest.mark.parametrize(("listed", "seen"), [((), [8]), (("daemon",), [7, 8, 9]), (("nobody",), [8])])
def test_an_operator_counts_as_one_only_where_he_is_listed_and_slurm_says_so_too(tmp_path, listed, seen):
    operators = {"operator": lambda user: user == "daemon"}
    with answers(tmp_path, NamedUsers(ME, frozenset(listed)), **operators) as path:
        assert sorted(jobs(path, **{"as": "daemon"})) == seen
        assert jobs(path, **{"as": "nobody"}) == [7], "listed, and no operator in Slurm"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (WebSettings(user="no-such-user"), "accepted is a unix user of this host"),
        (WebSettings(user="root"), "neither root nor the daemon's own"),
        (WebSettings(user="daemon"), "neither root nor the daemon's own"),
        (WebSettings(operators=("alice",)), "web.operators: they are users whom web.user names"),
    ],
)
def test_a_web_user_that_others_are_too_is_refused(settings, said):
    with pytest.raises(ConfigError, match=said):
        named_users(settings, own_uid=pwd.getpwnam("daemon").pw_uid)


def test_without_a_web_user_nobody_is_named():
    assert named_users(WebSettings(), own_uid=1) is None
    assert named_users(WebSettings(user="daemon", operators=("bob",)), own_uid=99) == NamedUsers(1, frozenset({"bob"}))


class Connection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("web", timeout=60)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(60)
        self.sock.connect(self.path)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """``slurmsched web`` with both unix sockets, beside a daemon that takes the users whom it names."""
    directory = tmp_path_factory.mktemp("site")
    for one in (directory, *directory.parents):
        if one.stat().st_uid == ME and Path(gettempdir()) in one.parents:
            one.chmod(0o755)
    file, me = directory / "slurmsched.toml", pwd.getpwuid(ME).pw_name
    file.write_text(
        f"[daemon]\nrun_dir = '{directory}'\n[web]\nlisten = ''\nproxy_user = '{me}'\n"
        f"proxy_socket = '{directory}/proxy.sock'\nsocket = '{directory}/users.sock'\n"
    )
    words = [sys.executable, "-u", "-m", "slurmsched", "--config", str(file), "web"]
    with answers(directory, NamedUsers(ME)), subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout is not None
            said = [program.stdout.readline(), program.stdout.readline()]
            assert "proxy.sock for" in said[0]
            assert "users.sock for users of this host" in said[1]
            yield directory
        finally:
            program.terminate()


def got(path, address="/api/v1/queue", headers=()):
    """Status and body of an answer; each header is a pair, as one may come twice."""
    with closing(Connection(path)) as connection:
        connection.putrequest("GET", address)
        for name, value in headers:
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


def test_the_user_whom_the_proxy_names_sees_his_own_jobs(site):
    status, answer = got(site / "proxy.sock", headers=[("X-Remote-User", "daemon")])
    assert (status, [row["job_id"] for row in answer["queue"]]) == (200, [8])
    assert got(site / "proxy.sock", headers=[("X-Remote-User", "root")])[0] == 403
    assert got(site / "proxy.sock", "/api/v1/openapi.json")[1].get("security") is None


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("X-Remote-User", "")],
        [("X-Remote-User", "daemon"), ("X-Remote-User", "nobody")],
        [("X-Remote-User", "daemon, nobody")],
        [("X-Remote-User", "-daemon")],
        [("X-Remote-User", "d" * 300)],
        [("X_Remote_User", "daemon")],
        [("X-SLURM-USER-NAME", "daemon")],
    ],
)
def test_without_one_name_of_the_proxys_nobody_is_asked(site, headers):
    assert got(site / "proxy.sock", headers=headers)[0] == 401


def test_a_proxy_without_a_user_of_its_own_is_refused():
    assert uid_of_proxy("daemon") == 1
    for name, said in (("", "needs web.proxy_user"), ("no-such-user", "there is no such user here")):
        with pytest.raises(ConfigError, match=said):
            uid_of_proxy(name)


def test_a_socket_where_others_may_put_theirs_is_refused(tmp_path):
    tmp_path.chmod(0o777)
    with pytest.raises(ConfigError, match="others may write its directory"):
        UnixDoor.open(str(tmp_path / "web.sock"), application(never, forms(), by_proxy), never, 0o666)


def never(*_):
    raise AssertionError("nobody is asked")


ASK = """
import http.client, os, socket, sys
os.setgid(1); os.setuid(1)
connection = http.client.HTTPConnection("web")
connection.sock = socket.socket(socket.AF_UNIX)
connection.sock.connect(sys.argv[1])
connection.request("GET", "/api/v1/queue", headers={"X-Remote-User": "nobody"})
print(connection.getresponse().read().decode())
"""


def as_daemon(path):
    words = [sys.executable, "-c", ASK, str(path)]
    return subprocess.run(words, capture_output=True, text=True, timeout=120)


@as_root
def test_the_kernel_says_who_is_at_a_local_socket_and_no_header_does(site):
    done = as_daemon(site / "users.sock")
    assert [row["job_id"] for row in json.loads(done.stdout)["queue"]] == [8], done.stderr


@as_root
def test_whoever_is_not_the_proxy_does_not_get_in(site):
    done = as_daemon(site / "proxy.sock")
    assert (done.returncode, done.stdout) == (1, "")
    assert "RemoteDisconnected" in done.stderr or "Broken pipe" in done.stderr or "reset" in done.stderr
