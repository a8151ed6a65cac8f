"""The use of CPUs and memory by ended runs, read from accounting beside the cycles."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from ..clock import Clock, Timer
from ..cluster.records.usage import UsageTable
from ..cluster.usage_history import UsageHistory
from ..config.settings import RightsizeSettings
from ..cycle import CycleReport
from ..decide.policy import Policy
from ..errors import SlurmschedError
from ..slurm.port import Slurm, holds_to_limits
from .cycle_follower import CycleFollower

logger = logging.getLogger(__name__)

EVERY_S = 300.0
LAG_S = 60.0
"""How late a run may appear in accounting, with its steps."""
DAY_S = 86_400.0
UNSAVED_MOST = 50  #: readings that wait for the database; older ones are lost


class UsageService(CycleFollower):
    """Reads what runs used every few minutes, as long as CPUs and memory of jobs may be changed, or are *reported*.

    *keep* gets what was read. Where accounting does not answer, what was read before stays, and the rest is read later.
    """

    def __init__(
        self,
        cluster: Slurm,
        policy: Callable[[], Policy],
        settings: Callable[[], RightsizeSettings],
        config: Callable[[], Mapping[str, str]],
        clock: Clock,
        keep: Callable[[UsageTable], None] | None = None,
        reported: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__("usage")
        self.history = UsageHistory()
        self.trouble = ""  #: why accounting was not read last time; empty if it was
        self._cluster, self._policy, self._settings = cluster, policy, settings
        self._config, self._clock = config, clock
        self._keep, self._reported = keep, reported
        self._unsaved: list[UsageTable] = []
        self._read_until_s: float | None = None
        self._wait = Timer(clock.monotonic)

    @property
    def degraded(self) -> str:
        """Why accounting was not read."""
        return f"the use of CPUs and memory is not known anew: {self.trouble}" if self.trouble else ""

    @property
    def ready(self) -> bool:
        """True once the history has been read."""
        return self._read_until_s is not None

    def with_history(self, policy: Policy) -> Policy:
        """Return *policy*, which changes CPUs and memory by tokens alone before the history is known.

        It changes none where Slurm has limits: a job whose CPUs or memory an operator changed is not held to them.
        """
        rules = policy.rules
        if rules.rightsizing is None:
            return policy
        if holds_to_limits(self._config()) and not self._settings().despite_limits:
            return replace(policy, rules=replace(rules, rightsizing=None))
        if self.ready:
            return policy
        return replace(policy, rules=replace(rules, rightsizing=replace(rules.rightsizing, history=False)))

    def _note(self, report: CycleReport) -> bool:
        return self._policy().rules.rightsizing is not None or self._reported()

    def _due(self) -> bool:
        return self._wait.due

    def _work(self) -> None:
        self._wait.put_off(EVERY_S)
        until_s = self._clock.now() - LAG_S
        since_s = until_s - self._settings().history_days * DAY_S if self._read_until_s is None else self._read_until_s
        runs = self._cluster.usage(since_s, until_s)
        self.history.learn(runs)
        if not self.ready:
            logger.info("the use of CPUs and memory of %d kinds of jobs is known", len(self.history.table()))
        self._read_until_s, self.trouble = max(since_s, until_s), ""
        if self._keep is not None:
            self._unsaved = [*self._unsaved, runs][-UNSAVED_MOST:]
            self._save(self._keep)

    def _save(self, keep: Callable[[UsageTable], None]) -> None:
        """Keep what was read; while the database is away it waits for the next time."""
        try:
            while self._unsaved:
                keep(self._unsaved[0])
                del self._unsaved[0]
        except SlurmschedError as error:
            logger.warning("the use of CPUs and memory is not saved yet: %s", error)

    def _failed(self, error: SlurmschedError) -> None:
        if str(error) != self.trouble:
            logger.warning("the use of CPUs and memory was not read: %s", error)
        self.trouble = str(error)
        self._wait.put_off(EVERY_S / 10)

    def _abandon(self) -> None:
        """End nothing: a query ends by its own time limit."""
