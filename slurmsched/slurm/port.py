"""The border to a cluster: what every adapter promises."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ..cluster.actions import Action
from ..cluster.records.node_loans import SetNodes
from ..cluster.records.outcomes import OutcomeTable
from ..cluster.state import ClusterState


@dataclass(frozen=True)
class ClusterInfo:
    """What a cluster says about itself; read at start and on reload, not every cycle."""

    cluster: str
    version: tuple[int, ...]  #: of slurmctld, e.g. (22, 5, 8)
    config: dict[str, str] = field(default_factory=dict)  #: ``scontrol show config``, names as there
    user: str = ""  #: who we are to Slurm
    admin_level: str = "None"  #: None, Operator, Administrator, SlurmUser, or unknown while slurmdbd is away
    operators: frozenset[str] = frozenset()  #: users who may see and change all jobs
    gres: dict[str, str] = field(default_factory=dict)  #: what each node has, where GresTypes has slot; else empty
    backend: str = "Slurm's commands"  #: through what it is read
    backend_reason: str = ""  #: why that and not another

    @property
    def accounting(self) -> bool:
        """Whether slurmdbd keeps accounts, QOS and operators."""
        return self.config.get("AccountingStorageType", "").endswith("slurmdbd")

    @property
    def multifactor(self) -> bool:
        """Whether SiteFactor counts; with priority/basic only a fixed Priority does."""
        return self.config.get("PriorityType", "") == "priority/multifactor"


def keeps_jobs_private(config: Mapping[str, str]) -> bool:
    """Whether users see only their own jobs, by ``scontrol show config``."""
    return "jobs" in config.get("PrivateData", "").split(",")


@dataclass(frozen=True)
class ActionResult:
    """What became of one action: ``refused`` is Slurm's own sentence, None if it said yes."""

    action: Action
    refused: str | None = None


@dataclass(frozen=True)
class ControllerLoad:
    """How busy slurmctld is (sdiag)."""

    rpc_mean_s: float  #: mean service time of all RPCs since the counters were reset
    rpc_count: int
    rpc_total_s: float
    agent_queue: int


Fence = Callable[[], bool]
"""Asked before each batch of writes; False means another daemon leads and nothing more may be written."""


class Slurm(Protocol):
    """A cluster: real Slurm, or a public peer of it.

    Every method raises ``SlurmUnavailable`` where no answer comes within the time limit, and leaves nothing half
    read: the caller gets the whole or an error.
    """

    def facts(self) -> ClusterInfo:
        """What the cluster is; a handful of calls."""
        ...

    def observe(self) -> ClusterState:
        """All jobs, nodes and partitions now, in one bulk read of the queue.

        ``first_submit_s`` is Slurm's submit time and ``held_by_us`` is false: memory knows better and fills them.
        """
        ...

    def act(self, actions: Sequence[Action]) -> list[ActionResult]:
        """Do *actions* in order, one batch; one Answer each, in the same order.

        What became of an accepted action is seen by the next ``observe``, never assumed.
        """
        ...

    def set_nodes(self, changes: Sequence[SetNodes]) -> str | None:
        """Do *changes* of partitions in order, up to the first that is refused; Slurm's sentence on that one.

        Every node named must be one that ``observe`` shows.
        """
        ...

    def load(self) -> ControllerLoad:
        """How busy the controller is."""
        ...

    def forgot(self, job_ids: Sequence[int]) -> bool:
        """Whether it has none of *job_ids* any more; true where there are none to ask about.

        Asked of each job by number, so that a queue that was read only in part is noticed. SlurmUnavailable where we
        may not see the jobs of other users: Slurm denies those whether it has them or not.
        """
        ...

    def outcomes(self, since_s: float, until_s: float) -> OutcomeTable:
        """Runs that ended in [since_s, until_s) by the site's accounting; empty where there is none."""
        ...

    def past_runs(self, job_ids: Sequence[int], since_s: float) -> OutcomeTable:
        """Runs of *job_ids* that ended since then by the site's accounting, oldest end first; as ``outcomes``."""
        ...
