"""Choose the adapter: pyslurm where it matches the release of slurmctld, else Slurm's commands."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace

from ...cluster.actions import Action
from ...cluster.records.associations import AssociationTable
from ...cluster.records.outcomes import OutcomeTable, RefusedRecord
from ...cluster.records.usage import UsageTable
from ...cluster.state import ClusterState
from ...errors import SlurmError, SlurmUnavailable
from ..port import ActionResult, ClusterInfo, ControllerLoad, Slurm
from ..versions import SlurmRelease
from .command import SlurmCommand
from .command_runner import CommandRunner
from .pyslurm_adapter import SlurmBinding
from .pyslurm_worker import PyslurmMissing, Worker

logger = logging.getLogger(__name__)

TRIES = 3
"""Consecutive unanswered observations through pyslurm after which ``auto`` falls back to the commands."""


@dataclass
class SlurmBackend:
    """The ``Slurm`` port by the setting ``slurm.backend``; ``facts()`` holds the choice and its reason.

    ``auto`` falls back to the commands where pyslurm is missing, belongs to another release or fails three observations
    in a row; the next ``facts()`` chooses again. ``pyslurm`` raises SlurmError instead.
    """

    command: SlurmCommand
    wanted: str = "auto"
    _binding: SlurmBinding | None = None
    _silent: int = 0
    _last_reason: str = ""
    _choice: tuple[str, str] | None = None
    _read_from: Set[tuple[str, str]] = frozenset()
    """The configuration on which the choice was based."""

    @classmethod
    def of(
        cls,
        console: CommandRunner,
        wanted: str,
        apart: Callable[[], Set[str]] = frozenset,
        interactive_names: tuple[str, ...] = (),
    ) -> SlurmBackend:
        """Build the backend over *console*, without querying Slurm yet.

        *apart* is what it reads only because somebody needs it (``SlurmCommand.apart``); batch jobs of some
        *interactive_names* are sessions of a portal.
        """
        return cls(SlurmCommand(console, apart=apart, interactive_names=interactive_names), wanted)

    def facts(self) -> ClusterInfo:
        """Read the cluster's description anew, and choose the adapter."""
        facts = self.command.facts()
        config = facts.config.items() - {("NEXT_JOB_ID", facts.config.get("NEXT_JOB_ID"))}
        if self._choice is None or self._read_from != config:  # else libslurm would only re-read the same file
            self.close()
            self._choice, self._read_from = self._choose(facts), config
        backend, why = self._choice
        if (reason := f"{backend}: {why}") != self._last_reason:
            logger.info("reading Slurm through %s", reason)
            self._last_reason = reason
        return replace(facts, backend=backend, backend_reason=why)

    def observe(self) -> ClusterState:
        """Implement ``Slurm.observe``."""
        if self._binding is None:
            return self.command.observe()
        try:
            state = self._binding.observe()
        except SlurmUnavailable as error:
            self._silent += 1
            if self.wanted == "auto" and self._silent >= TRIES:
                logger.warning("going on with Slurm's commands, pyslurm gave no answer: %s", error)
                self.close()
            raise
        self._silent = 0
        return state

    def act(self, actions: Sequence[Action]) -> list[ActionResult]:
        """Implement ``Slurm.act``."""
        return self._chosen.act(actions)

    def load(self) -> ControllerLoad:
        """Implement ``Slurm.load``."""
        return self.command.load()

    def outcomes(self, since_s: float, until_s: float, refused: list[RefusedRecord] | None = None) -> OutcomeTable:
        """Implement ``Slurm.outcomes``."""
        return self.command.outcomes(since_s, until_s, refused)

    def usage(self, since_s: float, until_s: float) -> UsageTable:
        """Implement ``Slurm.usage``."""
        return self.command.usage(since_s, until_s)

    def associations(self) -> AssociationTable:
        """Implement ``Slurm.associations``."""
        return self.command.associations()

    def forgot(self, job_ids: Sequence[int]) -> bool:
        """Implement ``Slurm.forgot``."""
        return self.command.forgot(job_ids)

    def with_our_comment(self) -> list[int]:
        """Implement ``Slurm.with_our_comment``."""
        return self.command.with_our_comment()

    def past_runs(self, job_ids: Sequence[int], since_s: float) -> OutcomeTable:
        """Implement ``Slurm.past_runs``."""
        return self.command.past_runs(job_ids, since_s)

    @property
    def _chosen(self) -> Slurm:
        return self._binding or self.command

    def close(self) -> None:
        """Stop pyslurm and fall back to the commands; the next ``facts`` chooses again."""
        if self._binding is not None:
            self._binding.worker.stop()
        self._binding, self._silent, self._choice = None, 0, None

    def _choose(self, facts: ClusterInfo) -> tuple[str, str]:
        if self.wanted == "command":
            return "Slurm's commands", "slurm.backend says so"
        worker = Worker(self.command.console, self.command.console.called)
        try:
            ours = worker.start()
            problem = _misfit(ours, facts)
        except PyslurmMissing as error:
            problem = f"pyslurm cannot be used: {error}"
        if not problem:
            self._binding = SlurmBinding(self.command, worker)
            return f"pyslurm {ours}", "it belongs to the release of slurmctld"
        worker.stop()
        if self.wanted == "pyslurm":
            raise SlurmError(f"slurm.backend is pyslurm, but {problem}; accepted are also auto and command")
        return "Slurm's commands", problem


def _misfit(ours: str, facts: ClusterInfo) -> str:
    """Return the reason why pyslurm of version *ours* does not fit the cluster; empty where it does."""
    release = SlurmRelease(facts.version)
    series = tuple(int(part) for part in ours.split(".")[:2] if part.isdigit())
    if series == release.series:
        return ""
    return f"pyslurm {ours} is not of the release of slurmctld, {release}"
