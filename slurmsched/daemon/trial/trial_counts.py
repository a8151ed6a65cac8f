"""The counts of a trial beside the cycles, and its end: after its last block, or where the policy harms."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping

from ...clock import Clock, Timer
from ...cluster.records.trial import OfBlock, Trial, TrialSums
from ...cluster.stranded_gpus import LONGEST_S
from ...cycle import CycleReport
from ...db.store import Store
from ...decide.rules import TrialRules
from ...errors import SlurmschedError
from ...report.trial_effects import harm, trial_facts
from ..cycle_follower import CycleFollower
from .trial_policy import TrialPolicy
from .waiting_jobs import waited

logger = logging.getLogger(__name__)

EVERY_S = 60.0  #: between two writes to the database


class TrialCounts(CycleFollower):
    """Counts the measured part of each block in memory, adds it to the database every minute, and ends the trial.

    What it judges by is in the database alone, so that another leader goes on with it. A cycle in which the daemon did
    not act counts for nothing. A killed daemon loses a minute.
    """

    leader_only = True

    def __init__(self, policy: TrialPolicy, store: Store, cluster: str, clock: Clock) -> None:
        super().__init__("trial")
        self._policy, self._store, self._cluster, self._clock = policy, store, cluster, clock
        self._sums: dict[OfBlock, TrialSums] = defaultdict(TrialSums)
        self._of: Trial | None = None
        self._last_s: float | None = None
        self._harmed = ""
        self._wait = Timer(clock.monotonic)

    @property
    def degraded(self) -> str:
        """That the policy is off after it harmed."""
        trial = self._policy.latest
        if trial is None or not trial.keeps_off:
            return ""
        return f"the policy is off: in its trial {trial.detail}; 'slurmsched trial stop' lets it go on"

    def close(self) -> None:
        """Count no more cycles, and write what is left."""
        super().close()
        if self._of is None or not self._sums:
            return
        try:
            self._save(self._of)
        except SlurmschedError as error:
            self._failed(error)

    def _note(self, report: CycleReport) -> bool:
        last_s, self._last_s, trial = self._last_s, report.now_s, self._policy.latest
        if trial is None or not trial.runs:
            return False
        if self._of is None or self._of.started_s != trial.started_s:
            self._sums, last_s = defaultdict(TrialSums), None
        self._of = trial
        if report.mode != "act" or last_s is None or not 0 < report.now_s - last_s <= LONGEST_S:
            return True
        block = trial.block(report.now_s)
        if block is None or last_s < block.measured_from_s:
            return True
        lasted_s = report.now_s - last_s
        of = TrialRules(holdout=trial.holdout, seed=trial.seed)
        self._add(OfBlock(block.number, ""), TrialSums(counted_s=lasted_s))
        for account, sums in waited(report.view, lasted_s, of).items():
            self._add(OfBlock(block.number, account), sums)
        return True

    def _add(self, of: OfBlock, sums: TrialSums) -> None:
        self._sums[of] = self._sums[of].plus(sums)

    def _due(self) -> bool:
        return self._wait.due

    def _work(self) -> None:
        self._wait.put_off(EVERY_S)
        trial, report = self._of, self._report
        if trial is None or report is None:
            return
        sums = self._save(trial)
        facts = trial_facts(trial, sums, report.now_s)
        if sentence := harm(trial, sums, report.now_s):
            logger.error("the trial of the policy has ended: %s", sentence)
            self._end(trial, report.now_s, "harm", sentence)
        elif report.now_s >= trial.until_s:
            self._end(trial, report.now_s, "over", f"{facts['pairs']} pairs of blocks count")

    def _save(self, trial: Trial) -> Mapping[OfBlock, TrialSums]:
        """Add what was counted to the database, and return all of the trial."""
        with self._news:
            news, self._sums = self._sums, defaultdict(TrialSums)
        try:
            self._store.add_trial_sums(self._cluster, trial.started_s, news)
        except SlurmschedError:
            with self._news:
                for of, sums in news.items():
                    self._add(of, sums)
            raise
        return self._store.trial_sums(self._cluster, trial.started_s)

    def _end(self, trial: Trial, now_s: float, ending: str, detail: str) -> None:
        self._store.end_trial(self._cluster, trial.started_s, now_s, ending, detail)  # type: ignore[arg-type]

    def _failed(self, error: SlurmschedError) -> None:
        logger.warning("what the trial counted is not saved yet: %s", error)

    def _abandon(self) -> None:
        """End nothing: a write ends by the database's own time limit."""
