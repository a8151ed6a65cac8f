"""The release of every job to Slurm: on an ordered stop, and for ``slurmsched release-all``."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Event

from ..clock import Clock
from ..db.tracking.intent_records import Intent
from ..decide.rules import SharingRules
from ..decide.sharing.packing import settle_shared
from ..slurm.port import Slurm
from ..slurm.write.release import ReleaseReport, release_all

REST_S = 1.0
FOR_JOBS = 0.75
"""The share of the time for jobs; the rest is for the command then under way, and for returning nodes."""


def give_back(
    cluster: Slurm, intents: Sequence[Intent], clock: Clock, budget_s: float, sharing: SharingRules
) -> ReleaseReport:
    """Undo our changes to every job; the last writes begin within ``FOR_JOBS`` of *budget_s* seconds.

    *sharing* names the partitions of shared GPUs.
    """
    until_s, now_s = clock.monotonic() + FOR_JOBS * budget_s, clock.now()
    asked_for = {intent.job_id: str(intent.value) for intent in intents if intent.kind == "Share"}
    return release_all(
        cluster,
        {intent.job_id for intent in intents if intent.kind == "Rank"},
        {intent.job_id for intent in intents if intent.kind == "Hold"},
        now_s=now_s,
        settling=lambda state: settle_shared(state.pending, asked_for, sharing, now_s),
        within=lambda: clock.monotonic() < until_s,
        rest=lambda: clock.wait(REST_S, Event()),
    )
