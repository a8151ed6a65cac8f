"""The differences between releases of Slurm; no other module of the package depends on a release.

Texts are read in the spelling of every release at once, since a cluster may be half-way through an update. Abilities
follow from the number of the release.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from ..cluster.jobs import JobState

TESTED = ((22, 5), (24, 11), (25, 5), (25, 11), (26, 5))
"""The releases that the conformance suite ran against (docs/releases.md)."""

SHOWS_CLOUDS = (24, 11)
"""The first tested release that shows nodes of a cloud while they are switched off, whatever PrivateData says."""

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
    "EXPEDITING": JobState.COMPLETING,  # while it has nodes: its old run is being cleaned up there
    "RECONFIG_FAIL": JobState.FAILED,
    "REQUEUE_FED": JobState.PENDING,
    "REQUEUE_HOLD": JobState.PENDING,
    "SPECIAL_EXIT": JobState.PENDING,
    "RESV_DEL_HOLD": JobState.PENDING,
}
"""Our state by squeue's word for it, in any release; an unknown word is ``JobState.OTHER``, never an error."""

QUEUED_FIRST = "EXPEDITING"
"""The state (25.11) of a job that Slurm has queued again before all others, once it has no nodes (seen on 26.05)."""

RUN_STATES = {state.name: state for state in JobState if state.ended} | {
    "BOOT_FAIL": JobState.NODE_FAIL,
    "DEADLINE": JobState.CANCELLED,
    "LAUNCH_FAILED": JobState.FAILED,
    "RECONFIG_FAIL": JobState.FAILED,
    "REVOKED": JobState.CANCELLED,
}
"""Our state by sacct's first word for the state of an ended run, in any release."""

GOING_ON = frozenset(JOB_STATES) - frozenset(RUN_STATES) - {"OTHER"}
"""sacct's words for a run that has not ended."""

WHOLE_NODE = frozenset({"NODE"})
"""Values of the field Exclusive for a job that takes whole nodes."""

WHOLE_NODE_OVERSUBSCRIBE = frozenset({"NO", "EXCLUSIVE"})
"""Values of the field OverSubscribe for such a job, in releases without ``exclusive_field``."""

UNUSABLE_NODE = re.compile(
    r"down|drain|fail|maint|reboot|unk|power|future|not_resp|no_respond|block|perfctrs|inval|external|blacklist|\*",
    re.IGNORECASE,
)
"""Words and signs in a node's state (sinfo's StateComplete) with which it accepts no job now."""

IN_A_MOMENT = "Resource temporarily unavailable"
"""A random refusal by newer releases of a new partition for a job whose owner has no association in slurmdbd.

slurmctld treats the missing association as an error, and answers with whatever errno was left in its thread (seen on
24.11 and 26.05, docs/releases.md). Nothing of the line takes effect; an immediate retry may succeed.
"""

TASK_UNREFUSED = ("No error", "Job has already finished", "Job is no longer pending execution")
"""Messages of scontrol, such as ``12_1-2: Job has already finished``, about array tasks that are no refusals.

The exit status is then not 0, though the waiting tasks were changed. 22.05 lists the changed tasks too, with
``No error``; 24.11 does not, so that an array without any waiting task looks the same there as one that was changed.
"""

UNKNOWN_JOB = "Invalid job id specified"
"""The message of every release for a job that it does not have, or no longer has."""


class Support(Enum):
    """The degree to which a release was tested."""

    TESTED = "tested"
    BETWEEN = "between two that were tested"
    NEWER = "newer than any that was tested"
    TOO_OLD = "older than the oldest one supported"


@dataclass(frozen=True)
class Ability:
    """An ability that only newer releases have."""

    since: tuple[int, int]
    words: str


ABILITIES = {
    "extra": Ability((23, 2), "a job's Extra field"),
    "gpu_reservations": Ability((23, 11), "reservations of GPUs (TRES=gres/gpu)"),
    "signals_children": Ability((23, 11), "SIGTERM for the children of a batch script"),
    "inherits_accounts": Ability((24, 11), "partitions that take the accounts below those they name"),
    "topology_yaml": Ability((25, 5), "a topology without TopologyPlugin (topology.yaml)"),
    "requeue_delay": Ability((25, 11), "SchedulerParameters=requeue_delay"),
    "defaults_where_nodes_are_enough": Ability(
        (25, 11), "defaults of the first of several partitions with enough nodes"
    ),
    "native_metrics": Ability((25, 11), "slurmctld's own /metrics, per user too"),
    "task_on_each_node": Ability((26, 5), "the refusal of more nodes, by GPUs, than tasks"),
    "exclusive_field": Ability((26, 5), "a job's Exclusive field, apart from OverSubscribe"),
}
"""Abilities by the name that the code uses; ``slurmsched check`` lists them."""


@dataclass(frozen=True)
class SlurmRelease:
    """A version of slurmctld, such as ``SlurmRelease((22, 5, 8))``."""

    version: tuple[int, ...]

    @classmethod
    def of(cls, config: Mapping[str, str]) -> SlurmRelease:
        """Return the release that ``scontrol show config`` names; an empty version where it names none."""
        return cls(tuple(int(part) for part in re.findall(r"\d+", config.get("SLURM_VERSION", ""))[:3]))

    def __str__(self) -> str:
        return ".".join(f"{part:02}" if place == 1 else str(part) for place, part in enumerate(self.version))

    @property
    def series(self) -> tuple[int, ...]:
        """The two numbers that name a release; the third one counts its patches."""
        return self.version[:2]

    @property
    def support(self) -> Support:
        """The class of the release: tested, or its position relative to the tested ones."""
        if self.series in TESTED:
            return Support.TESTED
        if self.series < TESTED[0]:
            return Support.TOO_OLD
        return Support.NEWER if self.series > TESTED[-1] else Support.BETWEEN

    def can(self, ability: str) -> bool:
        """Return True if the release has *ability*, a key of ``ABILITIES``."""
        return self.series >= ABILITIES[ability].since

    def requeue_delay_s(self, config: Mapping[str, str]) -> float:
        """Return the seconds for which Slurm delays a requeued job: its old credential's lifetime and one second.

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
