"""Facts of the cluster, refreshed regularly: its configuration, its operators, its release."""

from __future__ import annotations

import logging
from threading import Event

from ..clock import Clock
from ..errors import ConfigError, SlurmError, SlurmUnavailable
from ..slurm.port import ClusterInfo, Slurm, keeps_jobs_private, unreadable_selection
from ..slurm.versions import TESTED, SlurmRelease, Support

logger = logging.getLogger(__name__)

MOST_AGE_S = 60.0  #: of PrivateData, the operators and the rest of the configuration
RETRY_S = 2.0


class ClusterFacts:
    """The latest facts of a cluster.

    Construction waits *patience_s* for a slurmctld that is still starting, then raises SlurmUnavailable. It raises
    ConfigError for a cluster of which nothing true could be said.
    """

    def __init__(self, cluster: Slurm, clock: Clock, patience_s: float = 0.0) -> None:
        self._cluster, self._clock = cluster, clock
        self.latest = _first(cluster, clock, patience_s)
        if trouble := unreadable_selection(self.latest.config):
            raise ConfigError(trouble)
        self._read_s = clock.monotonic()

    @property
    def private_jobs(self) -> bool:
        """True if users see only their own jobs (PrivateData, slurm.conf(5))."""
        return keeps_jobs_private(self.latest.config)

    def restraint(self, allow_untested: bool) -> str:
        """Return why this Slurm may only be observed; empty where writes are allowed."""
        if trouble := unreadable_selection(self.latest.config):
            return trouble
        release = SlurmRelease(self.latest.version)
        if release.support is not Support.NEWER or allow_untested:
            return ""
        return (
            f"Slurm {release} is {release.support.value}, {SlurmRelease(TESTED[-1])}; slurm.allow_untested lifts this"
        )

    def refresh(self) -> ClusterInfo:
        """Read the facts again; where Slurm does not answer, the latest ones hold."""
        self._read_s = self._clock.monotonic()
        try:
            self.latest = self._cluster.facts()
        except SlurmError as error:
            logger.warning("the cluster's configuration was not read again: %s", error)
        return self.latest

    def refresh_if_old(self) -> ClusterInfo:
        """Read the facts again where the latest are older than MOST_AGE_S."""
        return self.refresh() if self._clock.monotonic() >= self._read_s + MOST_AGE_S else self.latest


def _first(cluster: Slurm, clock: Clock, patience_s: float) -> ClusterInfo:
    until_s = clock.monotonic() + patience_s
    while True:
        try:
            return cluster.facts()
        except SlurmUnavailable as error:
            if clock.monotonic() >= until_s:
                raise
            logger.warning("waiting for slurmctld: %s", error)
            clock.wait(RETRY_S, Event())
