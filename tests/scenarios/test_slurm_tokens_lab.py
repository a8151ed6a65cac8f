"""Users prove themselves by tokens that Slurm itself made, beside munge and on a cluster of auth/slurm."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

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
    site = Site.of(lab, None, remote="\n".join([*lines, "munge = false"]))
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
