"""The parts of slurmsched, put together from the settings when a command first needs them."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ..clock import Clock, SystemClock
from ..config import Loaded, Settings, Unreadable, load
from ..errors import SlurmschedError, SlurmUnavailable

if TYPE_CHECKING:
    from ..daemon.api.record_summaries import FigureQueries
    from ..db.store import Store
    from ..db.tracking.decisions import DecisionRecord
    from ..db.tracking.intents import Intent
    from ..models.registry import ArtifactRegistry
    from ..slurm.adapters.command_runner import CommandRunner, TimeLeft
    from ..slurm.port import Slurm
    from .query import QueryClient

logger = logging.getLogger(__name__)

Called = Callable[[str, str, float, int], None]


def has_tables(store: Store) -> bool:
    """Whether the database holds tables of ours, of whatever version."""
    there = store.path is None or os.path.exists(store.path)
    return there and store.version() is not None


def make_tables(store: Store) -> None:
    """Make the tables where there are none; others stay as they are. MemoryUnavailable where they cannot be made."""
    if not has_tables(store):
        store.upgrade()


class App:
    """What a command works with; tests hand in one with other parts."""

    def __init__(
        self, config: str | None = None, *, clock: Clock | None = None, environ: Mapping[str, str] | None = None
    ) -> None:
        self.config = config
        self.clock = clock or SystemClock()
        self.environ = os.environ if environ is None else environ
        self.log_level: str | None = None  #: what the command line said

    @cached_property
    def loaded(self) -> Loaded:
        """The settings with their origins; ConfigError where they mean nothing."""
        return load(self.config, self.environ)

    def settings(self) -> Settings:
        """The settings."""
        return self.loaded.settings

    def run_dir(self) -> Path:
        """Where the daemon's sockets are; by the settings that this user may read, else by their defaults."""
        try:
            return Path(self.settings().daemon.run_dir)
        except Unreadable as error:
            return Path(error.rest.settings.daemon.run_dir)

    def reload(self) -> Settings:
        """The settings as they are on disk now; where they mean nothing, those known before stay."""
        self.loaded = load(self.config, self.environ)
        return self.loaded.settings

    def store(self) -> Store:
        """The database, with tables that fit; MemoryUnavailable or SchemaMismatch."""
        self._store.check()
        return self._store

    def writable_store(self) -> Store:
        """The same for a command that writes, which makes the tables where there are none."""
        make_tables(self._store)
        return self.store()

    def has_tables(self) -> bool:
        """Whether the database holds tables, of whatever version; MemoryUnavailable where it does not answer."""
        return has_tables(self._store)

    @cached_property
    def _store(self) -> Store:
        return self.open_store()

    def open_store(self, kind: type[Store] | None = None) -> Store:
        """The database, whether it answers or not and whatever its tables; the caller closes it."""
        from ..db.database import database_url
        from ..db.store import Store

        settings = self.settings()
        url = database_url(settings.database.url, settings.daemon.state_dir)
        return (kind or Store)(url, timeout_s=settings.database.timeout_s)

    def cluster(self, called: Called | None = None) -> Slurm:
        """The real Slurm; nothing is asked of it yet. *called* hears of every command that is run."""
        from ..slurm.adapters.backend import SlurmBackend

        console = self.console()
        wanted = self.settings().slurm.backend
        return SlurmBackend.of(console if called is None else replace(console, called=called), wanted)

    def partitions(self) -> tuple[str, ...]:
        """The names of the cluster's partitions; SlurmError where it does not answer."""
        return tuple(self.cluster().observe().partitions.name)

    def artifacts(self) -> ArtifactRegistry:
        """Where trained models lie."""
        from ..models.registry import ArtifactRegistry

        settings = self.settings()
        return ArtifactRegistry(Path(settings.models.directory or Path(settings.daemon.state_dir, "models")))

    def console(self) -> CommandRunner:
        """What runs Slurm's commands, by the settings."""
        from ..slurm.adapters.command_runner import CommandRunner

        slurm = self.settings().slurm
        return CommandRunner(
            slurm.conf, slurm.bin_dir, timeout_s=slurm.timeout_s, environment=self.environ, left=self.time_left
        )

    @cached_property
    def time_left(self) -> TimeLeft:
        """The time left for all of Slurm's commands together; endless until it is bounded."""
        from ..slurm.adapters.command_runner import TimeLeft

        return TimeLeft()

    def cluster_name(self) -> str:
        """The name under which the database knows the cluster; from slurm.conf where slurmctld does not answer."""
        try:
            return self.cluster().facts().cluster
        except SlurmUnavailable:
            conf = Path(self.settings().slurm.conf or self.environ.get("SLURM_CONF", "/etc/slurm/slurm.conf"))
            try:
                named = re.search(r"^\s*ClusterName\s*=\s*(\S+)", conf.read_text(errors="replace"), re.M | re.I)
            except OSError:
                named = None
            if named is None:
                raise
            return named[1].lower()

    def answers(self) -> QueryClient:
        """Whom to ask about jobs: the daemon, or else the latest record of its decisions."""
        from ..daemon.api.query_server import SOCKET
        from .query import QueryClient

        return QueryClient(
            self.run_dir() / SOCKET,
            lambda: self.store().latest_decision(),
            lambda job_id: self.store().story(self.cluster_name(), job_id),
            self.figures,
        )

    def figures(self) -> FigureQueries:
        """Figures of what the database and the models' directory hold."""
        from ..daemon.api.record_summaries import FigureQueries

        return FigureQueries(self.store, self.cluster_name, self.artifacts(), self.clock)

    def decision(self, cycle: int) -> DecisionRecord | None:
        """A recorded cycle; None where it is not kept."""
        return self.store().decision(cycle)

    def open_intents(self) -> Sequence[Intent]:
        """What we asked of Slurm and has not ended, as far as the database can tell."""
        try:
            return self.store().intents(self.cluster_name(), self.clock.now())
        except SlurmschedError as error:
            logger.warning("going by what Slurm shows alone: %s", error)
            return ()

    def close(self) -> None:
        """Close what was opened."""
        if "_store" in self.__dict__:
            self._store.close()
