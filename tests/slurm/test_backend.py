"""Which adapter is chosen, and that no pyslurm can hurt: modules of that name which hang, die or belong elsewhere."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from test_command import Commands

from slurmsched.errors import SlurmError, SlurmUnavailable
from slurmsched.slurm.adapters.backend import TRIES, SlurmBackend
from slurmsched.slurm.adapters.command_runner import CommandRunner

OURS = "22.5.1"
"""A pyslurm of the release that ``Commands`` says the cluster has."""

EMPTY = """
class PyslurmError(Exception): pass
class RPCError(PyslurmError): pass
class Jobs(dict):
    load = classmethod(lambda kind: kind())
Nodes = Partitions = Jobs
"""

FATAL = "import os; os.write(2, b'fatal: no configuration source'); os._exit(1)"
"""As libslurm ends the process that imports it."""


class Site:
    """Commands that answer, beside a pyslurm that does as a test says."""

    def __init__(self, directory: Path) -> None:
        self.modules = directory / "modules"
        self.modules.mkdir()
        (directory / "bin").mkdir()
        self.commands = Commands(directory / "bin")

    def has(self, version: str = OURS, script: str = "") -> None:
        (self.modules / "pyslurm.py").write_text(f"__version__ = {version!r}\n{EMPTY}\n{script}\n")

    def backend(self, wanted: str, timeout_s: float = 10.0) -> SlurmBackend:
        environment = os.environ | {"PYTHONPATH": str(self.modules)}
        console = CommandRunner(bin_dir=str(self.commands.directory), timeout_s=timeout_s, environment=environment)
        return SlurmBackend.of(console, wanted)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_pyslurm_of_the_same_release_is_taken_and_said(site):
    site.has()
    facts = site.backend("auto").facts()
    assert facts.backend == "pyslurm 22.5.1"
    assert "release of slurmctld" in facts.backend_reason


@pytest.mark.parametrize(
    ("version", "script", "why"),
    [
        ("24.11.0", "", r"24\.11\.0 is not of the release of slurmctld, 22\.05\.8"),
        (OURS, "import nothing_of_that_name", "ModuleNotFoundError"),
        (OURS, FATAL, "fatal: no configuration source"),
    ],
)
def test_a_pyslurm_that_does_not_fit_leaves_the_commands_and_says_why(site, version, script, why):
    site.has(version, script)
    backend = site.backend("auto")
    facts = backend.facts()
    assert facts.backend == "Slurm's commands"
    assert len(backend.observe().pending) == 0
    with pytest.raises(SlurmError, match=f"slurm.backend is pyslurm, but .*{why}.*accepted are also auto and command"):
        site.backend("pyslurm").facts()


def test_the_commands_are_taken_unasked_where_an_admin_says_so(site):
    site.has()
    assert site.backend("command").facts().backend_reason == "slurm.backend says so"


def test_a_pyslurm_that_hangs_costs_one_time_limit_a_look_and_is_then_left(site):
    site.has(script="import time\nJobs.load = classmethod(lambda kind: time.sleep(600))")
    backend = site.backend("auto", timeout_s=3.0)
    backend.facts()
    began = time.monotonic()
    for _ in range(TRIES):
        with pytest.raises(SlurmUnavailable, match=r"pyslurm jobs gave no answer within 3 s"):
            backend.observe()
    assert time.monotonic() - began < 60, "not what a call takes that hangs"
    assert len(backend.observe().pending) == 0


def test_a_pyslurm_that_crashes_is_started_again(site, tmp_path):
    fell = tmp_path / "fell"
    crash = f"""
import os, pathlib
def once(kind):
    if pathlib.Path({str(fell)!r}).exists():
        return kind()
    pathlib.Path({str(fell)!r}).touch()
    os._exit(11)
Jobs.load = classmethod(once)
Nodes = Partitions = type("Nothing", (dict,), {{"load": classmethod(lambda kind: kind())}})
"""
    site.has(script=crash)
    backend = site.backend("auto")
    backend.facts()
    with pytest.raises(SlurmUnavailable):
        backend.observe()
    assert len(backend.observe().pending) == 0


def test_what_slurm_refuses_through_pyslurm_is_its_own_sentence(site):
    site.has(script="Jobs.load = classmethod(lambda kind: (_ for _ in ()).throw(RPCError('Access/permission denied')))")
    backend = site.backend("auto")
    backend.facts()
    with pytest.raises(SlurmError, match="Access/permission denied"):
        backend.observe()
