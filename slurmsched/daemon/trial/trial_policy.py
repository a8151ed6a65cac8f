"""The policy of a trial, cycle by cycle: that of the settings, or none."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from ...cluster.records.trial import Trial
from ...db.store import Store
from ...decide.policy import Policy
from ...decide.rules import TrialRules
from ...decide.trial import without_policy
from ...errors import MemoryUnavailable

logger = logging.getLogger(__name__)


class TrialPolicy:
    """The latest trial of a cluster as its database has it, and the policy in force under it.

    Each daemon reads the trial anew in each cycle, so that a restart and a change of leader change nothing. Without the
    database, or while it is not *available*, the last known one counts.
    """

    def __init__(self, store: Store, cluster: str, available: Callable[[], bool] = lambda: True) -> None:
        self._store, self._cluster, self._available = store, cluster, available
        self._trial: Trial | None = None

    @property
    def latest(self) -> Trial | None:
        """The trial that was read last; None where there was none."""
        return self._trial

    def read(self) -> None:
        """Read the latest trial."""
        if not self._available():
            return
        try:
            found = self._store.trials(self._cluster, 1)
        except MemoryUnavailable as error:
            logger.debug("the trial is the last known one: %s", error)
            return
        before, self._trial = self._trial, found[0] if found else None
        if self._trial is not None and self._trial != before:
            logger.info("trial: %s", in_words(self._trial))

    def in_force(self, policy: Policy, now_s: float) -> Policy:
        """Return *policy* as the trial has it at *now_s*: in a block without it, Slurm's own order."""
        trial = self._trial
        if trial is None:
            return policy
        block, rules = trial.block(now_s), TrialRules(holdout=trial.holdout, seed=trial.seed)
        if trial.keeps_off or (block is not None and not block.acts):
            return without_policy(policy, replace(rules, holdout=0.0))
        if block is not None and trial.holdout:
            return replace(policy, rules=replace(policy.rules, trial=rules))
        return policy

    def order_off(self, now_s: float) -> str:
        """Return why our order is not in force because of a trial; empty where it is."""
        trial = self._trial
        if trial is None:
            return ""
        if trial.keeps_off:
            return "a trial of the policy ended by harm, and nobody has run 'slurmsched trial stop' yet"
        block = trial.block(now_s)
        return "" if block is None or block.acts else "a trial of the policy leaves the order to Slurm in this block"


def in_words(trial: Trial) -> str:
    """Return what a trial is, and how it ended, in a sentence."""
    what = (
        f"{trial.blocks} blocks of {trial.block_s / 3600:g} h by {trial.by}, seed {trial.seed}, washout "
        f"{trial.washout_s / 3600:g} h, {trial.holdout:.0%} held out"
    )
    return what + (f"; it is {trial.ending}: {trial.detail}" if trial.ending else "")
