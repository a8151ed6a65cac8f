"""The interface to a cluster, which every adapter implements."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ..cluster.actions import Action
from ..cluster.permissions import Permissions
from ..cluster.records.associations import AssociationTable
from ..cluster.records.outcomes import OutcomeTable, RefusedRecord
from ..cluster.records.usage import UsageTable
from ..cluster.state import ClusterState

RIGHTS = ("Operator", "Administrator", "SlurmUser")
"""The levels of users who may see and change all jobs."""


@dataclass(frozen=True)
class ClusterInfo:
    """A cluster's description of itself; read at start and on reload, not every cycle."""

    cluster: str
    version: tuple[int, ...]  #: of slurmctld, e.g. (22, 5, 8)
    config: dict[str, str] = field(default_factory=dict)  #: ``scontrol show config``, by the names there
    user: str = ""  #: our user name in Slurm
    admin_level: str = "None"  #: None, Operator, Administrator, SlurmUser, or unknown while slurmdbd is away
    operators: frozenset[str] = frozenset()  #: users who may see and change all jobs
    gres: dict[str, str] = field(default_factory=dict)  #: GRES of each node, where GresTypes has slot; else empty
    backend: str = "Slurm's commands"  #: the adapter that reads it
    backend_reason: str = ""  #: the reason for that choice
    permissions: Permissions = field(default_factory=Permissions)  #: who may submit what
    federation: str = ""  #: its name, where the cluster is in one

    @property
    def accounting(self) -> bool:
        """True if slurmdbd keeps accounts, QOS and operators."""
        return self.config.get("AccountingStorageType", "").endswith("slurmdbd")

    @property
    def multifactor(self) -> bool:
        """True if SiteFactor takes effect; with priority/basic only a fixed Priority does."""
        return self.config.get("PriorityType", "") == "priority/multifactor"


def holds_to_limits(config: Mapping[str, str]) -> bool:
    """Return True where Slurm holds jobs to the limits of their associations and QOS (``AccountingStorageEnforce``)."""
    return not {"limits", "safe", "all"}.isdisjoint(config.get("AccountingStorageEnforce", "").lower().split(","))


def starts_safely(config: Mapping[str, str]) -> bool:
    """Return True where Slurm starts a job only if a limit of minutes has its whole time limit left."""
    return not {"safe", "all"}.isdisjoint(config.get("AccountingStorageEnforce", "").lower().split(","))


def hides_associations(config: Mapping[str, str]) -> bool:
    """Return True if only operators see the associations of other users (``PrivateData``)."""
    return "users" in config.get("PrivateData", "").lower().split(",")


def counts_memory(config: Mapping[str, str]) -> bool:
    """Return True where Slurm gives out memory like CPUs (``SelectTypeParameters``), by ``scontrol show config``."""
    return "MEMORY" in config.get("SelectTypeParameters", "CR_CORE_MEMORY").upper()


def unreadable_selection(config: Mapping[str, str]) -> str:
    """Return why nothing we say of this cluster would be true, by ``scontrol show config``; empty if it can be."""
    plugin = config.get("SelectType", "")
    if plugin != "select/linear":
        return ""
    return (
        f"SelectType is {plugin}: Slurm gives every job whole nodes, whatever it asks for, and slurmsched counts GPUs, "
        "CPUs and memory; set SelectType=select/cons_tres in slurm.conf"
    )


def preemption(config: Mapping[str, str]) -> str:
    """Return by what Slurm stops jobs for others (``PreemptType``): qos, partition_prio; empty where it stops none."""
    kind = config.get("PreemptType", "").removeprefix("preempt/")
    return "" if kind in ("", "(null)", "none") else kind


def keeps_jobs_private(config: Mapping[str, str]) -> bool:
    """Return True if users see only their own jobs, by ``scontrol show config``."""
    return "jobs" in config.get("PrivateData", "").split(",")


@dataclass(frozen=True)
class ActionResult:
    """The result of one action: ``refused`` is Slurm's own message, None if it accepted."""

    action: Action
    refused: str | None = None


@dataclass(frozen=True)
class ControllerLoad:
    """The load of slurmctld, by sdiag(1)."""

    rpc_mean_s: float  #: mean service time of all RPCs since the counters were reset
    rpc_count: int
    rpc_total_s: float
    agent_queue: int
    now_s: float = math.nan  #: slurmctld's clock as it answered; NaN where that is not known


Fence = Callable[[], bool]
"""A check before each batch of writes; False means that another daemon leads and nothing more may be written."""


class Slurm(Protocol):
    """A cluster: a real Slurm or a fake one.

    Every method raises ``SlurmUnavailable`` where no answer comes within the time limit. The caller gets a complete
    answer or an error, never a part.
    """

    def facts(self) -> ClusterInfo:
        """Describe the cluster, in a handful of calls."""
        ...

    def observe(self) -> ClusterState:
        """Return all jobs, nodes and partitions now, in one bulk read of the queue.

        ``first_submit_s`` is Slurm's submit time and ``held_by_us`` is false: the caller fills them from its database.
        """
        ...

    def act(self, actions: Sequence[Action]) -> list[ActionResult]:
        """Execute *actions* in order, as one batch; return one result each, in the same order.

        Only the next ``observe`` shows the effect of an accepted action; it is never assumed. The steps of a
        ``MoveNodes`` end at the first refusal; every node named must be one that ``observe`` shows.
        """
        ...

    def load(self) -> ControllerLoad:
        """Return the load of the controller."""
        ...

    def forgot(self, job_ids: Sequence[int]) -> bool:
        """Return True if the cluster no longer has any of *job_ids*; also for an empty sequence.

        Each job is requested by id, which detects a queue that was read only in part. SlurmUnavailable where we may
        not see the jobs of other users: Slurm then denies having them in any case.
        """
        ...

    def with_our_comment(self) -> list[int]:
        """Return the ids of pending and running jobs whose AdminComment is ours; one id for the tasks that wait."""
        ...

    def outcomes(self, since_s: float, until_s: float, refused: list[RefusedRecord] | None = None) -> OutcomeTable:
        """Return runs that ended in [since_s, until_s) by the site's accounting; empty where there is none.

        Records that are no runs are added to *refused*.
        """
        ...

    def usage(self, since_s: float, until_s: float) -> UsageTable:
        """Return what runs used that ended in [since_s, until_s), by accounting, oldest end first; may take long."""
        ...

    def associations(self) -> AssociationTable:
        """Return users and accounts with their shares; empty where the site keeps no accounts, or hides them."""
        ...

    def past_runs(self, job_ids: Sequence[int], since_s: float) -> OutcomeTable:
        """Return runs of *job_ids* that ended since *since_s* by the site's accounting, oldest end first."""
        ...
