"""Two users of a login node ask the daemon on another host: two network namespaces with one cable between them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from bench.namespaces import NamespacesUnavailable, cable
from json_forms import answer_of

from slurmsched.errors import LabError
from slurmsched.lab import Lab, LabSpec, programs
from slurmsched.lab.users import nobody_gid

pytest.importorskip("trustme")

HERE, THERE = "192.0.2.1", "192.0.2.2"


@pytest.fixture(scope="module")
def namespaces() -> Iterator[tuple[str, str]]:
    """The names of those of the daemon's host and of the login node; nothing else reaches them."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    with ExitStack() as stack:
        try:
            names = stack.enter_context(cable(HERE, THERE))
        except NamespacesUnavailable as error:
            pytest.skip(f"no network namespaces here: {error}")
        yield names


class LoginNode:
    """The commands of users where no socket of the daemon is, with client settings that all can read."""

    def __init__(self, namespace: str, known: dict[str, Any]) -> None:
        self.namespace, self.known = namespace, known
        self.settings = Path(known["work"]) / "login"
        (self.settings / "conf.d").mkdir(parents=True)
        (self.settings / "slurmsched.toml").write_text(f"[daemon]\nrun_dir = '{self.settings}'\n")
        self.client(ca=known["ca"], munge_socket=known["munge"], server=self.server)

    @property
    def server(self) -> str:
        return f"{HERE}:{self.known['port']}"

    def client(self, **settings: str) -> None:
        lines = [f"{name} = '{value}'" for name, value in settings.items()]
        (self.settings / "conf.d" / "client.toml").write_text("\n".join(["[client]", *lines, ""]))

    def run(self, user: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        python, path = self.known["python"]
        as_user = ["setpriv", f"--reuid={self.known['uids'][user]}", f"--regid={nobody_gid()}", "--clear-groups"]
        own = {"PYTHONPATH": path, "SLURMSCHED_CONFIG": str(self.settings / "slurmsched.toml"), "HOME": "/nonexistent"}
        return subprocess.run(
            ["ip", "netns", "exec", self.namespace, *as_user, python, "-m", "slurmsched", *words],
            env={"PATH": os.environ["PATH"], **own, **environment},
            cwd="/",
            capture_output=True,
            text=True,
            timeout=120.0,
            check=False,
        )

    def answer(self, user: str, *words: str) -> dict[str, Any]:
        done = self.run(user, *words, "--json")
        assert done.stderr == ""
        return answer_of(words, done.stdout)


@pytest.fixture(scope="module")
def login(namespaces: tuple[str, str]) -> Iterator[LoginNode]:
    try:
        programs.check(LabSpec())
    except LabError as error:
        pytest.skip(str(error))
    host, there = namespaces
    directory = Path(tempfile.mkdtemp(prefix="sslab-", dir="/tmp"))  # as short as a socket needs, and open to users
    program = [sys.executable, str(Path(__file__).with_name("remote_host.py")), str(directory), HERE]
    with subprocess.Popen(
        ["ip", "netns", "exec", host, *program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, "no daemon came up"
        yield LoginNode(there, json.loads(line))
        process.stdin.close()
        status = process.wait(120.0)
    Lab(directory).down()
    assert status == 0


pytestmark = pytest.mark.lab


@pytest.mark.parametrize(("user", "other"), [("alice", "bob"), ("bob", "alice")])
def test_a_user_of_another_host_sees_what_the_veil_allows(login, user, other):
    jobs = login.known["jobs"]
    assert [row["job_id"] for row in login.answer(user, "queue")["queue"]] == [jobs[user]]
    assert login.answer(user, "why", str(jobs[user]))["job_id"] == jobs[user]
    assert login.answer(user, "story", str(jobs[user]))["job_id"] == jobs[user]
    assert login.answer(user, "status")["mode"] == "act"
    for command in ("why", "explain", "story"):
        refused = login.run(user, command, str(jobs[other]))
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "is not yours or does not exist" in refused.stderr


def test_the_variable_names_the_daemon_too(login):
    login.client(ca=login.known["ca"], munge_socket=login.known["munge"])
    assert "no daemon listens on" in login.run("alice", "queue").stderr
    assert login.run("alice", "queue", SLURMSCHED_SERVER=login.server).returncode == 0
    login.client(ca=login.known["ca"], munge_socket=login.known["munge"], server=login.server)


def test_a_client_without_the_authority_trusts_no_daemon_and_one_without_munge_proves_nothing(login):
    login.client(munge_socket=login.known["munge"], server=login.server)
    assert "is not trusted" in login.run("alice", "queue").stderr
    login.client(ca=login.known["ca"], munge_socket="/nonexistent", server=login.server)
    assert "munge gave no credential" in login.run("alice", "queue").stderr
    login.client(ca=login.known["ca"], munge_socket=login.known["munge"], server=login.server)
