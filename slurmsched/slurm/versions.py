"""What differs between releases of Slurm: everything this package knows of it is on this page.

Texts are read in the spelling of every release at once, since a cluster may be half-way through an update; what a
release can do at all is asked of its number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from ..cluster.jobs import JobState

TESTED = ((22, 5), (24, 11), (26, 5))
"""The releases that the conformance suite ran against (docs/releases.md)."""

NOTHING = frozenset({"", "(null)", "N/A", "n/a", "None assigned"})
"""How commands print a field that has no value, NO_VAL among them; cluster/text/tres.py reads the numbers."""

JOB_STATES = {
    **{state.name: state for state in JobState},
    "BOOT_FAIL": JobState.NODE_FAIL,
    "DEADLINE": JobState.TIMEOUT,
    "LAUNCH_FAILED": JobState.FAILED,
    "REVOKED": JobState.CANCELLED,
    "STOPPED": JobState.SUSPENDED,
    "SIGNALING": JobState.RUNNING,
    "STAGE_OUT": JobState.COMPLETING,
    "RESIZING": JobState.RUNNING,
    "POWER_UP_NODE": JobState.CONFIGURING,
    "EXPEDITING": JobState.PENDING,
    "RECONFIG_FAIL": JobState.FAILED,
    "REQUEUE_FED": JobState.PENDING,
    "REQUEUE_HOLD": JobState.PENDING,
    "SPECIAL_EXIT": JobState.PENDING,
    "RESV_DEL_HOLD": JobState.PENDING,
}
"""squeue's word for a job's state, in any release, and ours; an unknown word is ``JobState.OTHER``, never an error."""

RUN_STATES = {state.name: state for state in JobState if state.ended} | {
    "BOOT_FAIL": JobState.NODE_FAIL,
    "DEADLINE": JobState.CANCELLED,
    "LAUNCH_FAILED": JobState.FAILED,
    "RECONFIG_FAIL": JobState.FAILED,
    "REVOKED": JobState.CANCELLED,
}
"""sacct's first word for the state of a run that is over, in any release, and ours."""

GOING_ON = frozenset(JOB_STATES) - frozenset(RUN_STATES) - {"OTHER"}
"""sacct's words for a run that is not over."""

WHOLE_NODE = frozenset({"NODE"})
"""How a job that takes its nodes for itself is written, where a field of its own says so."""

WHOLE_NODE_OVERSUBSCRIBE = frozenset({"NO", "EXCLUSIVE"})
"""The same in the field OverSubscribe, which says it in releases without ``exclusive_field``."""

UNUSABLE_NODE = re.compile(
    r"down|drain|fail|maint|reboot|unk|power|future|not_resp|no_respond|block|perfctrs|inval|external|blacklist|\*",
    re.IGNORECASE,
)
"""Words and signs in a node's state (sinfo's StateComplete) with which it takes no job now."""

IN_A_MOMENT = "Resource temporarily unavailable"
"""What newer releases say, by chance, to a change of partition of a job whose owner has no association in slurmdbd.

slurmctld takes it for an error that it finds no association, and answers with whatever errno was left in its thread
(seen on 24.11 and 26.05, docs/releases.md). Nothing of the line is done, and the same line may be taken at once.
"""

TASK_UNREFUSED = ("No error", "Job has already finished", "Job is no longer pending execution")
"""What scontrol says, as ``12_1-2: Job has already finished``, of tasks of an array that were changed or are past it.

The exit status is not 0 then, though what waits was changed. 22.05 names those tasks too, with ``No error``; 24.11 says
nothing of them, so that an array of which all is past looks the same there as one that was changed.
"""

UNKNOWN_JOB = "Invalid job id specified"
"""What every release says of a job that it does not have, or has no more."""


class Support(Enum):
    """How well a release is known."""

    TESTED = "tested"
    BETWEEN = "between two that were tested"
    NEWER = "newer than any that was tested"
    TOO_OLD = "older than the oldest one supported"


@dataclass(frozen=True)
class Ability:
    """Something only newer releases can do."""

    since: tuple[int, int]
    words: str


ABILITIES = {
    "extra": Ability((23, 2), "a job's Extra field"),
    "gpu_reservations": Ability((23, 11), "reservations of GPUs (TRES=gres/gpu)"),
    "signals_children": Ability((23, 11), "SIGTERM for the children of a batch script"),
    "requeue_delay": Ability((25, 11), "SchedulerParameters=requeue_delay"),
    "native_metrics": Ability((25, 11), "slurmctld's own /metrics, per user too"),
    "exclusive_field": Ability((26, 5), "a job's Exclusive field, apart from OverSubscribe"),
}
"""By the name that code asks for; ``slurmsched check`` lists them."""


@dataclass(frozen=True)
class SlurmRelease:
    """A version of slurmctld, such as ``SlurmRelease((22, 5, 8))``."""

    version: tuple[int, ...]

    @classmethod
    def of(cls, config: Mapping[str, str]) -> SlurmRelease:
        """The one that ``scontrol show config`` names; an empty version where it names none."""
        return cls(tuple(int(part) for part in re.findall(r"\d+", config.get("SLURM_VERSION", ""))[:3]))

    def __str__(self) -> str:
        return ".".join(f"{part:02}" if place == 1 else str(part) for place, part in enumerate(self.version))

    @property
    def series(self) -> tuple[int, ...]:
        """The two numbers that name a release; the third one only counts its corrections."""
        return self.version[:2]

    @property
    def support(self) -> Support:
        """Whether it was tested, or how far it lies from those that were."""
        if self.series in TESTED:
            return Support.TESTED
        if self.series < TESTED[0]:
            return Support.TOO_OLD
        return Support.NEWER if self.series > TESTED[-1] else Support.BETWEEN

    def can(self, ability: str) -> bool:
        """Whether it has one of ``ABILITIES``."""
        return self.series >= ABILITIES[ability].since

    def requeue_delay_s(self, config: Mapping[str, str]) -> float:
        """How long Slurm itself keeps a requeued job from starting: until its old credential has expired, and a second.

        ``cred_expire`` in AuthInfo or, from 25.11, ``requeue_delay`` in SchedulerParameters set it (slurm.conf(5)).
        """
        if self.can("requeue_delay"):
            own = _number("requeue_delay", config.get("SchedulerParameters", ""))
            if own is not None:
                return own
        expires = _number("cred_expire", config.get("AuthInfo", ""))
        return (120.0 if expires is None else expires) + 1.0


def _number(key: str, text: str) -> float | None:
    found = re.search(rf"(?:^|,){key}=(\d+)", text)
    return float(found[1]) if found else None
