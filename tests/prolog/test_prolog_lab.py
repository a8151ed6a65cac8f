"""The whole way on a real Slurm: a job's GPUs are measured, and the daemon's collector has the record."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from node_worlds import PROGRAMS, ROUND, TWO_GPUS, V100_LINKS, four_gpus, patient_path, wait_on_lab

from slurmsched.clock import SystemClock
from slurmsched.cluster.records.profiles import NodeProfile, ProfileTable
from slurmsched.cluster.text.hostlist import expand
from slurmsched.daemon.profiles.profile_receiver import ProfileReceiver, Receiver
from slurmsched.db.store import Store
from slurmsched.errors import LabError
from slurmsched.lab import Lab, LabSpec, programs
from slurmsched.slurm.read.node_addresses import NodeAddresses

pytestmark = pytest.mark.lab

#: As 50-slurmsched in a site's directory of prologs would be, but for what a test needs in the environment.
WRAPPER = """#!/bin/sh
export SLURMSCHED_NODE_CONF={home}/node.conf LD_LIBRARY_PATH={nvml} FAKE_NVML_SCRIPT={home}/script PATH={path}
{home}/programs/{program}
status=$?
echo "{program} $SLURM_JOB_ID $status" >>{home}/ended
exit $status
"""


@dataclass
class Site:
    """A Slurm whose nodes are profiled, and the collector they deliver to."""

    lab: Lab
    home: Path
    port: int
    kept: list[NodeProfile] = field(default_factory=list)
    nodes: dict[int, set[str]] = field(default_factory=dict)  #: where each job was seen running

    def settings(self, **changes: str) -> None:
        said = {
            "PYTHON": sys.executable,
            "RUN_DIR": f"{self.home}/run",
            "TASK_DIR": f"{self.home}/tasks",
            "SPOOL_DIR": str(self.spool),
            "EVERY_S": "0.05",
            "COLLECTOR": f"127.0.0.1:{self.port}",
            "COLLECTOR_USER": "root",
            "MUNGE_SOCKET": str(self.lab.layout.munge_socket),
        } | changes
        (self.home / "node.conf").write_text("".join(f"{key}={value}\n" for key, value in said.items()))

    def script(self, text: str) -> None:
        (self.home / "script").write_text(text)

    @property
    def spool(self) -> Path:
        return self.home / "spool"

    def waiting(self) -> list[Path]:
        """Records that the nodes still keep."""
        return list(self.spool.glob("*.json"))

    def ended(self) -> list[str]:
        path = self.home / "ended"
        return path.read_text().splitlines() if path.exists() else []

    def run(
        self, *options: str, work: str = "true", comment: str = "", rounds: int = 0, delivered: bool = False
    ) -> int:
        """The id of a job that ran to its epilog; it must have completed, on nodes that are well.

        It does its *work* once its nodes are noted, and each has measured for so many *rounds*, and its profile is
        *delivered*.
        """
        go = f"until [ -e {self.home}/go.$SLURM_JOB_ID ]; do sleep 0.1; done"
        output = f"--output={self.lab.layout.work}/%j.out"
        job_id = self.lab.submit(*options, f"--comment={comment}", output, f"--wrap={go}; {work}")
        wait_on_lab(lambda: self.runs(job_id), f"job {job_id} to run", 120.0)
        wait_on_lab(lambda: min(self.questions(job_id)) >= rounds * ROUND, f"job {job_id} to be measured", 120.0)
        if delivered:
            self.profile(job_id)
        (self.home / f"go.{job_id}").touch()
        wait_on_lab(lambda: f"epilog {job_id} 0" in self.ended(), f"the epilog of job {job_id}", 120.0)
        assert f"prolog {job_id} 0" in self.ended()
        shown = self.lab.ask(["scontrol", "show", "job", str(job_id)])
        assert "ExitCode=0:0" in shown
        assert "Reason=None" in shown
        states = self.lab.ask(["sinfo", "-h", "-N", "-o", "%t"]).split()
        assert set(states) <= {"idle", "mix", "comp", "alloc"}
        return job_id

    def runs(self, job_id: int) -> bool:
        """Whether the job runs; its nodes are noted, since squeue names those of a job that completes only in part."""
        if running := self.lab.ask(["squeue", "-h", "-t", "R", "-j", str(job_id), "-o", "%N"]).strip():
            self.nodes[job_id] = set(expand(running))
        return bool(running)

    def ran(self, job_id: int, node: str) -> bool | None:
        nodes = self.nodes.get(job_id)
        return None if nodes is None else node in nodes

    def questions(self, job_id: int) -> list[int]:
        """How many questions about the job each of its nodes asked."""
        files = (self.home / f"script.asked.{job_id}.{node}" for node in self.nodes[job_id])
        return [file.stat().st_size if file.exists() else 0 for file in files]

    @contextmanager
    def collecting(self, emptied: bool = True) -> Iterator[ProfileReceiver]:
        addresses = NodeAddresses(self.lab.ask, time.monotonic)
        receiver = Receiver(addresses=addresses, ran=self.ran, save=self.kept.append)
        unmunge = ["unmunge", f"--socket={self.lab.layout.munge_socket}"]
        collector = ProfileReceiver(("127.0.0.1", self.port), receiver, SystemClock(), unmunge=unmunge)
        collector.start()
        try:
            yield collector
            if emptied:
                wait_on_lab(lambda: not self.waiting(), "nodes to hear that their records are here")
        finally:
            collector.close()

    def profile(self, job_id: int) -> NodeProfile:
        def mine() -> list[NodeProfile]:
            return [profile for profile in self.kept if profile.job_id == job_id]

        wait_on_lab(lambda: bool(mine()), f"the profile of job {job_id}")
        return mine()[0]


@pytest.fixture(scope="module")
def profiled(nvml: Path) -> Iterator[Site]:
    if os.geteuid() != 0:
        pytest.skip("records come from root")
    with (
        tempfile.TemporaryDirectory(prefix="profiled-", dir="/tmp") as directory,
        socket.create_server(("", 0)) as free,
    ):
        home, port = Path(directory), free.getsockname()[1]
        free.close()
        home.chmod(0o755)
        shutil.copytree(PROGRAMS, home / "programs")
        (home / "programs").chmod(0o755)
        path, hooks = patient_path(home), []
        for program in ("prolog", "epilog", "taskprolog"):
            hook = home / program
            hook.write_text(WRAPPER.format(home=home, nvml=nvml, path=path, program=program))
            hook.chmod(0o755)
            hooks.append(f"{program}={hook}")
        (home / "ended").touch()
        (home / "ended").chmod(0o666)
        spec = LabSpec(nodes=2, accounting=False, extra_conf=(*hooks, "PrologFlags=Alloc"))
        try:
            programs.check(spec)
        except LabError as error:
            pytest.skip(str(error))
        with Lab(home / "lab", spec) as lab:
            yield Site(lab, home, port)


@pytest.fixture
def site(profiled: Site) -> Site:
    """The site as it should be: every setting right, two GPUs of which the first works."""
    profiled.settings()
    profiled.script(TWO_GPUS)
    return profiled


def test_a_job_is_profiled_and_the_daemon_has_it(site):
    with site.collecting() as collector:
        job_id = site.run("--gpus=2", "--nodes=1", work="env | grep ^SLURMSCHED_PROF", rounds=6)
        profile = site.profile(job_id)
    assert (profile.node, profile.gpus, profile.restart) == ("n1", 2, 0)
    assert (profile.gpu_util, profile.process_share) == (0.4, 0.5)
    assert profile.measured_s > 0.2
    assert collector.results == {"ok": 1}
    assert (site.lab.layout.work / f"{job_id}.out").read_text() == "SLURMSCHED_PROFILE=1\n"


def test_a_job_is_known_while_it_runs(site):
    site.settings(EARLY_S="0.5")
    with site.collecting():
        job_id = site.run("--gpus=1", delivered=True)
    first, *_, last = sorted((each for each in site.kept if each.job_id == job_id), key=lambda each: each.measured_s)
    assert (first.gpu_util, first.start_s) == (0.4, last.start_s)
    assert first.measured_s < last.measured_s


def test_each_node_of_a_job_sends_its_own(site):
    with site.collecting():
        job_id = site.run("--nodes=2", "--gpus-per-node=1", rounds=2)
        wait_on_lab(lambda: sum(profile.job_id == job_id for profile in site.kept) == 2, "both profiles")
    assert {profile.node for profile in site.kept if profile.job_id == job_id} == {"n1", "n2"}


def test_while_the_daemon_is_away_records_wait_for_a_later_epilog(site):
    first = site.run("--gpus=1", rounds=2)
    wait_on_lab(lambda: len(site.waiting()) == 1, "the record in the spool")
    with site.collecting():
        site.run("--gpus=1", comment="slurmsched:noprofile")
        assert site.profile(first).gpu_util == 0.4


def test_who_wants_no_profile_has_none(site):
    with site.collecting() as collector:
        job_id = site.run("--gpus=1", work="env | grep -c ^SLURMSCHED_PROF || true", comment="slurmsched:noprofile")
        site.run()
    assert collector.results == {}
    assert (site.lab.layout.work / f"{job_id}.out").read_text() == "0\n"


@pytest.mark.parametrize(
    "trouble",
    [
        {"PYTHON": "/nonexistent/python3"},
        {"PYTHON": "/bin/cat"},
        {"RUN_DIR": "/proc/nowhere"},
        {"SPOOL_DIR": "/dev/full"},
        {"MUNGE": "/nonexistent/munge"},
    ],
)
def test_what_is_missing_on_a_node_drains_none(site, trouble):
    site.settings(**trouble)
    site.run("--gpus=1")


def test_an_nvml_that_hangs_drains_no_node_and_delays_no_job(site):
    site.script("0 * init hang:600\n")
    site.run("--gpus=1")  # has its own limit, far below the 600 s


def test_a_user_cannot_forge_a_profile(site):
    record = {"version": 1, "job_id": 1, "restart": 0, "node": "n1", "gpus": [{}]}
    user = next(iter(site.lab.manifest.users))
    argv = ["munge", f"--socket={site.lab.layout.munge_socket}"]
    credential = site.lab.ask(argv, user=user, input=json.dumps(record))
    # The record of an earlier job whose sampler ended late may wait for the next epilog.
    with site.collecting(emptied=False) as collector, socket.create_connection(collector.address) as stream:
        stream.sendall(credential.encode())
        assert stream.makefile().readline().startswith("refused: user")
    assert site.lab.run([*argv, "--uid=0"], user=user, input="{}").returncode != 0


def test_the_daemon_keeps_what_nodes_deliver(site, tmp_path):
    for name in ("state", "run"):
        (tmp_path / name).mkdir()
    settings = tmp_path / "slurmsched.toml"
    settings.write_text(
        f'''daemon = {{ every_s = 1, state_dir = "{tmp_path}/state", run_dir = "{tmp_path}/run" }}
slurm = {{ conf = "{site.lab.layout.slurm_conf}", backend = "command" }}
metrics = {{ listen = "" }}
predict = {{ enabled = false }}
profile = {{ listen = "127.0.0.1:{site.port}" }}
'''
    )
    environ = site.lab.env() | {"SLURMSCHED_CONFIG": str(settings)}
    daemon = subprocess.Popen([sys.executable, "-m", "slurmsched", "run"], env=environ, stderr=subprocess.DEVNULL)
    store = Store(f"sqlite:///{tmp_path}/state/slurmsched.db")
    try:
        wait_on_lab((tmp_path / "run/slurmsched.sock").exists, "the daemon")
        site.script(four_gpus(*V100_LINKS))
        job_id = site.run("--gpus=2", "--nodes=1", rounds=2)

        def kept() -> ProfileTable:
            table = store.profiles(site.lab.cluster)
            return table.take(table.job_id == job_id)

        # A record of a job that the daemon has not seen yet goes with a later epilog.
        later = {"comment": "slurmsched:noprofile"}
        wait_on_lab(lambda: len(kept()) == 1 or not site.run("--gpus=1", **later), "the delivery", 120.0)
        mine = kept()
        assert (mine.gpu_util.tolist(), mine.gpus.tolist()) == ([pytest.approx(0.4)], [2])
        links = [*mine.link_gbps.tolist(), *mine.best_link_gbps.tolist()]
        assert links == pytest.approx([25.0, 50.0]), "Slurm gave it GPUs 0 and 1"
        command = [sys.executable, "-m", "slurmsched", "advice", "--json"]
        advice = json.loads(subprocess.run(command, env=environ, capture_output=True, check=True).stdout)
        assert [(row["gpus"], row["runs"], row["lost"]) for row in advice["links"]] == [(2, 1, pytest.approx(0.5))]
    finally:
        store.close()
        daemon.terminate()
        daemon.wait(90.0)
