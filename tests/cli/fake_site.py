"""The commands on a Slurm in memory: an App whose files lie in a directory of the test, and calls of its commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result
from json_forms import answer_of
from new_store import new_store

from slurmsched.cli import main
from slurmsched.cli.app import App
from slurmsched.clock import Clock, ManualClock
from slurmsched.slurm.adapters.fake import FakeSlurm
from slurmsched.slurm.port import Slurm

NOW_S = 1_700_000_000.0

ORDERS = "mode = 'act'\n[power]\norder = true\n[policy]\nordering = 'sjf'\n[metrics]\nlisten = ''\n"
"""Settings of a daemon that orders the queue."""


class FakeSite(App):
    """An App on *slurm*, by default one in memory; *settings* begin with those of the section daemon."""

    def __init__(
        self,
        directory: Path,
        settings: str = ORDERS,
        slurm: Slurm | None = None,
        *,
        run_dir: Path | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.directory, self.file = directory, directory / "slurmsched.toml"
        self.own_run_dir = run_dir or directory
        self.write(settings)
        super().__init__(str(self.file), clock=clock or ManualClock(NOW_S), environ={})
        self.slurm: Any = slurm or FakeSlurm(now_s=NOW_S)

    def write(self, settings: str) -> None:
        """Replace the settings, the directories apart."""
        self.file.write_text(f"[daemon]\nstate_dir = '{self.directory}'\nrun_dir = '{self.own_run_dir}'\n{settings}")

    def make_tables(self) -> None:
        """Lay a database with tables where that of this site is: to make them anew takes long."""
        new_store(self.directory / "slurmsched.db").close()

    def cluster(self, called: object = None, apart: object = None, loads: object = None) -> Any:
        return self.slurm


def run(site: App, *words: str) -> Result:
    """Call a command; it may exit with any status, but not with an exception."""
    result = CliRunner().invoke(main, words, obj=site)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def json_of(site: App, *words: str) -> dict[str, Any]:
    """Call a command for its answer as JSON."""
    return answer_of(words, run(site, *words, "--json").stdout)
