"""The parts of slurmsched, built from the settings when a command first needs them."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ..clock import Clock, SystemClock
from ..config import Loaded, Settings, Unreadable, load
from ..errors import SlurmschedError, SlurmUnavailable

if TYPE_CHECKING:
    from ..cluster.actions.intent import Intent
    from ..daemon.api.record_summaries import FigureQueries
    from ..daemon.api.remote_client import RemoteDaemon
    from ..db.store import Store
    from ..db.tracking.decisions import DecisionRecord
    from ..models.registry import ArtifactRegistry
    from ..slurm.adapters.command_runner import CommandRunner, TimeLeft
    from ..slurm.port import Slurm
    from .query import QueryClient

logger = logging.getLogger(__name__)

SERVER = "SLURMSCHED_SERVER"
"""The environment variable with HOST:PORT of a daemon on another host."""

Called = Callable[[str, str, float, int], None]


def has_tables(store: Store) -> bool:
    """Report whether the database holds tables of ours, of any version."""
    there = store.path is None or os.path.exists(store.path)
    return there and store.version() is not None


def make_tables(store: Store) -> None:
    """Create the tables where there are none; leave others unchanged. MemoryUnavailable where that fails."""
    if not has_tables(store):
        store.upgrade()


def artifacts_of(settings: Settings) -> ArtifactRegistry:
    """Return the registry of trained models of these settings."""
    from ..models.registry import ArtifactRegistry

    return ArtifactRegistry(Path(settings.models.directory or Path(settings.daemon.state_dir, "models")))


class App:
    """The parts that a command works with; tests pass in substitutes."""

    def __init__(
        self, config: str | None = None, *, clock: Clock | None = None, environ: Mapping[str, str] | None = None
    ) -> None:
        self.config = config
        self.clock = clock or SystemClock()
        self.environ = os.environ if environ is None else environ
        self.log_level: str | None = None  #: from the command line

    @cached_property
    def loaded(self) -> Loaded:
        """Return the settings with their origins; ConfigError where they are invalid."""
        return load(self.config, self.environ)

    def settings(self) -> Settings:
        """Return the settings."""
        return self.loaded.settings

    def readable_settings(self) -> Settings:
        """Return the settings as far as this user may read them; defaults for the rest."""
        try:
            return self.settings()
        except Unreadable as error:
            return error.rest.settings

    def run_dir(self) -> Path:
        """Return the directory of the daemon's sockets: the one in settings readable by this user, else the default."""
        return Path(self.readable_settings().daemon.run_dir)

    def reload(self) -> Settings:
        """Read the settings from disk again and return them; where they are invalid, the current ones stay."""
        self.loaded = load(self.config, self.environ)
        return self.loaded.settings

    def store(self) -> Store:
        """Return the database, checked for fitting tables; MemoryUnavailable or SchemaMismatch."""
        self._store.check()
        return self._store

    def writable_store(self) -> Store:
        """Return the database for a command that writes; creates the tables where there are none."""
        make_tables(self._store)
        return self.store()

    def has_tables(self) -> bool:
        """Report whether the database holds tables, of any version; MemoryUnavailable where it does not answer."""
        return has_tables(self._store)

    @cached_property
    def _store(self) -> Store:
        return self.open_store()

    def open_store(self, kind: type[Store] | None = None) -> Store:
        """Open the database, even an unreachable one or one with other tables; the caller closes it."""
        from ..db.database import database_url
        from ..db.store import Store

        settings = self.settings()
        url = database_url(settings.database.url, settings.daemon.state_dir)
        return (kind or Store)(url, timeout_s=settings.database.timeout_s)

    def cluster(self, called: Called | None = None, apart: Callable[[], Set[str]] = frozenset) -> Slurm:
        """Return the port to the real Slurm, without a call yet; *called* is notified of each command run.

        *apart* are the columns of jobs, and the loads of nodes, that an observation has only where somebody needs them.
        """
        from ..slurm.adapters.backend import SlurmBackend

        console = self.console()
        wanted = self.settings().slurm.backend
        console = console if called is None else replace(console, called=called)
        return SlurmBackend.of(console, wanted, apart, self.settings().policy.interactive_names)

    def partitions(self) -> tuple[str, ...]:
        """Return the names of the cluster's partitions; SlurmError where it does not answer."""
        return tuple(self.cluster().observe().partitions.name)

    def artifacts(self) -> ArtifactRegistry:
        """Return the registry of trained models."""
        return artifacts_of(self.settings())

    def console(self) -> CommandRunner:
        """Return the runner of Slurm's commands, by the settings."""
        from ..slurm.adapters.command_runner import CommandRunner

        slurm = self.settings().slurm
        return CommandRunner(
            slurm.conf, slurm.bin_dir, timeout_s=slurm.timeout_s, environment=self.environ, left=self.time_left
        )

    @cached_property
    def time_left(self) -> TimeLeft:
        """The time left for all of Slurm's commands together; unlimited until it is bounded."""
        from ..slurm.adapters.command_runner import TimeLeft

        return TimeLeft()

    def cluster_name(self) -> str:
        """Return the cluster's name in the database; from slurm.conf where slurmctld does not answer."""
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
        """Return the client for queries about jobs: to the daemon, else to the latest decision record.

        $SLURMSCHED_SERVER names a daemon on another host; ``client.server`` names the one to ask where no socket is.
        """
        from ..daemon.api.query_protocol import SOCKET, query
        from ..daemon.api.remote_client import query_remote
        from .query import QueryClient, RecordedQueryClient, Records

        socket = self.run_dir() / SOCKET
        named = self.environ.get(SERVER, "")
        if named or (self.readable_settings().client.server and not os.path.exists(socket)):
            daemon = self.remote_daemon(named)
            return QueryClient(lambda request: query_remote(daemon, request))
        records = Records(
            lambda: self.store().latest_decision(),
            lambda job_id: self.store().story(self.cluster_name(), job_id),
            self.figures,
        )
        return RecordedQueryClient(lambda request: query(socket, request), records)

    def remote_daemon(self, named: str = "") -> RemoteDaemon:
        """Return the daemon that *named*, else the settings, name, and what proves this user to it."""
        from ..daemon.api.remote_client import RemoteDaemon

        client = self.readable_settings().client
        return RemoteDaemon(
            named or client.server,
            ca=client.ca,
            token=self.environ.get("SLURM_JWT", ""),
            certificate=client.certificate,
            key=client.key,
            user=self.environ.get("SLURMSCHED_AS", ""),
            munge_socket=client.munge_socket,
        )

    def figures(self) -> FigureQueries:
        """Return the figures in the database and the models' directory."""
        from ..daemon.api.record_summaries import FigureQueries

        return FigureQueries(self.store, self.cluster_name, self.artifacts(), self.clock)

    def decision(self, cycle: int) -> DecisionRecord | None:
        """Return a recorded cycle; None where it is not stored."""
        return self.store().decision(cycle)

    def open_intents(self) -> Sequence[Intent]:
        """Return our open requests to Slurm, as far as the database can tell."""
        try:
            return self.store().intents(self.cluster_name(), self.clock.now())
        except SlurmschedError as error:
            logger.warning("going by what Slurm shows alone: %s", error)
            return ()

    def close(self) -> None:
        """Close the database, if open."""
        if "_store" in self.__dict__:
            self._store.close()
