"""Users prove themselves by tokens that Slurm itself made, beside munge and on a cluster of auth/slurm."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from certificates import Authority
from lab_site import Site, interpreter
from remote_host import ASKERS, listening_port

from slurmsched.errors import LabError
from slurmsched.lab import Lab, LabSpec, programs
from slurmsched.lab.users import nobody_gid, uid_of

pytest.importorskip("trustme")
pytest.importorskip("jwt")
pytestmark = pytest.mark.lab

FAR = "127.0.0.1"


class KeyedLab(Lab):
    """A lab whose daemons have a key of auth/slurm; *secret* is that of the tokens."""

    def __init__(self, directory: Path, keys: Path, auth: str) -> None:
        sack = {"SLURM_SACK_KEY": str(keys / "slurm.key"), "SLURM_SACK_SOCKET": str(directory / "run/sack.socket")}
        self.sack = sack if auth == "slurm" else {}  # beside munge slurmctld takes them for a change of AuthType
        self.secret = keys / "jwt.key"
        for file in (keys / "slurm.key", self.secret):
            file.write_bytes(secrets.token_bytes(64))
            file.chmod(0o600)
        tokens = ("AuthAltTypes=auth/jwt", f"AuthAltParameters=jwt_key={self.secret}", "PrivateData=jobs")
        own = (f"AuthType=auth/{auth}", f"CredType={'cred' if auth == 'munge' else 'auth'}/{auth}")
        super().__init__(directory, LabSpec(accounting=False, extra_conf=(*own, *tokens)))

    def env(self, user: str | None = None) -> dict[str, str]:
        return super().env(user) | self.sack


class Login(NamedTuple):
    """What a user of another host needs, and the job of each user."""

    lab: KeyedLab
    settings: Path
    jobs: dict[str, int]

    def token(self, user: str) -> str:
        name, _, token = self.lab.run(["scontrol", "token", "lifespan=600"], user=user).stdout.strip().partition("=")
        assert name == "SLURM_JWT"
        return token

    def run(self, user: str, *words: str, token: str = "") -> subprocess.CompletedProcess[str]:
        uid = uid_of(self.lab.user(user))
        python, path = interpreter(self.lab.directory, uid)
        as_user = ["setpriv", f"--reuid={uid}", f"--regid={nobody_gid()}", "--clear-groups"]
        return subprocess.run(
            [*as_user, python, "-m", "slurmsched", *words],
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": path,
                "SLURMSCHED_CONFIG": str(self.settings),
                "HOME": "/nonexistent",
                **({"SLURM_JWT": token} if token else {}),
            },
            cwd="/",
            capture_output=True,
            text=True,
            timeout=120.0,
            check=False,
        )


@pytest.fixture(scope="module", params=["munge", "slurm"])
def login(request, tmp_path_factory) -> Iterator[Login]:
    if os.geteuid() != 0:
        pytest.skip("several users need root")
    try:
        programs.check(LabSpec(accounting=False))
    except LabError as error:
        pytest.skip(str(error))
    if request.param == "slurm" and programs.slurm_release(None) >= (25, 5):
        pytest.skip("daemons of auth/slurm listen in /run there, where a Slurm of this host may")
    directory = Path(tempfile.mkdtemp(prefix="sslab-", dir="/tmp"))  # as short as a socket needs, and open to users
    lab = KeyedLab(directory, tmp_path_factory.mktemp("keys"), request.param)
    try:
        lab.up()
    except LabError as error:
        if "Couldn't find the specified plugin" in str(error):
            pytest.skip(f"no plugin of auth/{request.param} or auth/jwt is installed")
        raise
    try:
        yield from serving(lab)
    finally:
        lab.down()


def serving(lab: KeyedLab) -> Iterator[Login]:
    """A daemon that takes tokens alone, and a client's settings."""
    authority = Authority.of(lab.layout.work / "site")
    certificate, key = authority.issue(FAR)
    secret = lab.layout.work / "jwt.key"
    secret.write_bytes(lab.secret.read_bytes())
    secret.chmod(0o600)
    remote = {"listen": f"{FAR}:0", "certificate": certificate, "key": key, "token_key": secret}
    lines = [f"{name} = '{value}'" for name, value in remote.items()]
    site = Site.of(lab, None, remote="\n".join([*lines, "munge = false"]), predict="enabled = true")
    for file in (key, secret):
        shutil.chown(file, site.uid, nobody_gid())
    site.fill()
    jobs = {user: lab.submit("--gres=gpu:4", "-N2", "--wrap=true", "-o/dev/null", user=user) for user in ASKERS}
    with site.daemon() as daemon:
        site.until(lambda: site.said("queue")["pending"] == len(jobs), "the jobs")
        directory = lab.layout.work / "login"
        (directory / "conf.d").mkdir(parents=True)
        settings = directory / "slurmsched.toml"
        settings.write_text(f"[daemon]\nrun_dir = '{directory}'\n")
        server = f"{FAR}:{listening_port(daemon.pid)}"
        (directory / "conf.d" / "client.toml").write_text(f"[client]\nca = '{authority.file}'\nserver = '{server}'\n")
        yield Login(lab, settings, jobs)


def test_a_token_of_slurm_shows_its_user_what_is_theirs(login):
    for user, other in (ASKERS, ASKERS[::-1]):
        token = login.token(user)
        assert login.run(user, "story", str(login.jobs[user]), token=token).returncode == 0
        refused = login.run(user, "story", str(login.jobs[other]), token=token)
        assert "is not yours or does not exist" in refused.stderr


def test_it_is_the_token_that_counts_and_not_who_sends_it(login):
    alice, bob = ASKERS
    assert login.run(bob, "story", str(login.jobs[alice]), token=login.token(alice)).returncode == 0


def test_without_a_token_nothing_is_told(login):
    refused = login.run(ASKERS[0], "queue")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "needs a token in $SLURM_JWT (scontrol token)" in refused.stderr


@pytest.fixture(scope="module")
def web(login) -> Iterator[str]:
    """The address of ``slurmsched web`` in front of that daemon."""
    pytest.importorskip("flask")
    pytest.importorskip("waitress")
    file = login.settings.with_name("web.toml")
    file.write_text(f"{login.settings.read_text()}[web]\nlisten = '127.0.0.1:0'\n")
    words = [sys.executable, "-u", "-m", "slurmsched", "--config", str(file), "web"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout is not None
            found = re.match(r"slurmsched web listens on (http://127\.0\.0\.1:\d+)/api", program.stdout.readline())
            assert found is not None
            yield found[1]
        finally:
            program.terminate()


def answered(web: str, address: str, token: str, **body: str) -> tuple[int, str]:
    """The status and the text of an answer; with a body the question is sent by POST."""
    headers = {"X-SLURM-USER-TOKEN": token} | ({"Content-Type": "application/json"} if body else {})
    asked = Request(f"{web}{address}", json.dumps(body).encode() if body else None, headers)
    try:
        with urlopen(asked, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_over_http_no_page_and_no_answer_to_a_user_has_a_word_of_another(login, web):
    from slurmsched.web.api import ASKED

    alice, bob = ASKERS
    token, other = login.token(alice), login.jobs[bob]
    status, mine = answered(web, "/api/v1/queue", token)
    assert (status, [row["job_id"] for row in json.loads(mine)["queue"]]) == (200, [login.jobs[alice]])
    for name in ("why", "explain", "story", "deadline", "gpus", "chart"):
        status, text = answered(web, f"/api/v1/{name}?job_id={other}", token)
        unknown = answered(web, f"/api/v1/{name}?job_id=4000000", token)
        assert (status, text.replace(f"job {other}", "job 4000000")) == unknown, "nothing tells whether the job exists"
    every = [f"/api/v1/{name}" for name in ASKED] + [f"/api/v1/{name}?job_id={other}" for name in ASKED]
    every += [f"/api/v1/{name}?only_user={login.lab.user(bob)}" for name in ("queue", "eta")]
    for address in (*every, *("/", "/queue", "/gpus", "/accuracy", "/report", "/policies", f"/jobs/{other}")):
        text = answered(web, address, token)[1].replace(f"only_user={login.lab.user(bob)}", "")
        said = re.sub(r"you may ask for \S+|[\"']only_user[\"'][^.]*", "", text)
        assert login.lab.user(bob) not in said, address


def test_over_http_a_job_is_tried_by_post_and_variants_beside_each_other(login, web):
    token, until_s = login.token(ASKERS[0]), time.monotonic() + 300.0
    for options in ("--gres=gpu:1", "--gres=gpu:4 -N2"):
        status, text = answered(web, "/api/v1/eta_check", token, options=options)
        while status == 503 and time.monotonic() < until_s:
            time.sleep(1.0)
            status, text = answered(web, "/api/v1/eta_check", token, options=options)
        assert status == 200, text
        (tried,) = json.loads(text)["eta"]
        assert (tried["start_s"] is not None, tried["not_understood"]) == (True, []), text
    status, page = answered(web, "/try?options=--gres%3Dgpu:1&options=--gres%3Dgpu:4%20-N2", token)
    assert (status, page.count('<tr><th scope="row">')) == (200, 2)
    status, text = answered(web, "/api/v1/eta_check", token, options="--no-such-option=1")
    assert (status, "no-such-option" in text) == (403, True), text


def test_over_http_a_token_that_has_expired_or_is_changed_is_refused(login, web):
    short = login.lab.run(["scontrol", "token", "lifespan=1"], user=ASKERS[0]).stdout.strip().partition("=")[2]
    until_s = time.monotonic() + 60.0
    while (status := answered(web, "/api/v1/queue", short)[0]) == 200 and time.monotonic() < until_s:
        time.sleep(0.5)
    assert status == 403
    head, body, signature = login.token(ASKERS[0]).split(".")
    forged = ".".join([head, login.token(ASKERS[1]).split(".")[1], signature])
    assert answered(web, "/api/v1/queue", forged)[0] == 403
    assert answered(web, "/", f"{head}.{body}.")[0] == 403
