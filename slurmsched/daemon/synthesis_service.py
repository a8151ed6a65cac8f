"""The choice among compositions beside the cycles: forecasts in a process of their own, and the switch."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from ..child_process import ChildFailed, ChildProcess
from ..clock import Clock
from ..cluster.records.outcomes import OutcomeTable
from ..cluster.state import View
from ..cycle import CycleReport
from ..db.memory import Memory
from ..db.records.policy_choices import PolicyChoice
from ..decide.policy import Policy
from ..decide.synthesis import AUTO, PlayRequest, Scores
from ..decide.synthesis_record import SynthesisStep
from ..errors import SlurmschedError
from .active_policy import ActivePolicy, ActiveSynthesis
from .cycle_follower import CycleFollower

logger = logging.getLogger(__name__)

TIMEOUT_S = 300.0
"""The limit for one answer; the first one may have to wait for the compiler."""


class SynthesisFailed(SlurmschedError):
    """No forecast of compositions is possible this time; the text says why."""


@dataclass(frozen=True)
class PlayedForward:
    """The scores of compositions in a state of the cluster."""

    line: str
    played_s: float  #: the time of that state
    scores: Scores


class CompositionPlayer:
    """Queries the process that runs the module *worker*."""

    def __init__(self, worker: str, timeout_s: float = TIMEOUT_S) -> None:
        self._timeout_s, self._process = timeout_s, ChildProcess(worker, "forecast of compositions")

    def play(self, request: PlayRequest) -> Scores:
        """Return the scores of the candidates; SynthesisFailed where there are none."""
        try:
            error, scores = self._process.ask(request, self._timeout_s)
        except ChildFailed as failure:
            raise SynthesisFailed(str(failure)) from failure
        if scores is None:
            raise SynthesisFailed(f"the play-forward failed: {error}")
        assert isinstance(scores, Scores)
        return scores

    def close(self) -> None:
        """Stop the process, also in the middle of an answer."""
        self._process.close()


class SynthesisService(CycleFollower):
    """Plays the state of every n-th cycle forward under each composition of a policy that chooses among several.

    *policy* returns the policy in force, *history* the runs that ended since a time. *played* is called with the
    seconds that an answer took, NaN where there was none. Without an answer no new scores come, and the composition in
    force stays.
    """

    def __init__(
        self,
        chosen: ActivePolicy,
        player: CompositionPlayer,
        policy: Callable[[], Policy],
        config: Callable[[], Mapping[str, str]],
        history: Callable[[float], OutcomeTable],
        clock: Clock,
        played: Callable[[float], None] = lambda took_s: None,
    ) -> None:
        super().__init__("synthesis")
        self._chosen, self._player, self._policy, self._config = chosen, player, policy, config
        self._history, self._clock, self._played = history, clock, played
        self._cycles = 0
        self._wanted: tuple[ActiveSynthesis, View] | None = None
        self._latest: PlayedForward | None = None
        self.trouble = ""  #: why the last forecast failed; empty where it did not

    @property
    def degraded(self) -> str:
        """Why no composition was played forward."""
        return f"the composition stays as it is: {self.trouble}" if self.trouble else ""

    def take(self) -> PlayedForward | None:
        """Return the latest scores, once."""
        latest, self._latest = self._latest, None
        return latest

    def once(self) -> None:
        """Play the latest wanted state forward, in this thread; SlurmschedError where that fails."""
        with self._news:
            wanted, self._wanted = self._wanted, None
        if wanted is None:
            return
        synthesis, view = wanted
        began_s = self._clock.monotonic()
        request = PlayRequest(
            synthesis.line,
            view,
            self._policy().without_plugins().to_json(),
            synthesis.admissible.candidates,
            self._config(),
            self._history(view.now_s - synthesis.rules.arrivals_s),
        )
        scores = self._player.play(request)
        self._latest, self.trouble = PlayedForward(synthesis.line, view.now_s, scores), ""
        self._played(self._clock.monotonic() - began_s)

    def _note(self, report: CycleReport) -> bool:
        synthesis = self._chosen.synthesis
        self._cycles += 1
        if synthesis is None or self._cycles < synthesis.rules.rounds or not contended(report.view):
            return False
        self._cycles, self._wanted = 0, (synthesis, report.view)
        return True

    def _work(self) -> None:
        self.once()

    def _failed(self, error: SlurmschedError) -> None:
        logger.warning("the composition stays, since none was played forward: %s", error)
        self.trouble = str(error)
        self._played(np.nan)

    def _broken(self) -> None:
        self.trouble = "a bug has ended the choice of compositions; see the log"

    def _abandon(self) -> None:
        self._player.close()


def contended(view: View) -> bool:
    """Report whether jobs wait and all jobs together ask for more GPUs than there are."""
    asked = int((view.pending.gpus * view.pending.tasks).sum() + view.running.gpus.sum())
    return len(view.pending) > 0 and asked > int(view.nodes.gpus.sum())


@dataclass(frozen=True)
class CompositionSwitcher:
    """The decision among compositions at the start of a cycle, and its record; only the leader has one."""

    chosen: ActivePolicy
    scores: Callable[[], PlayedForward | None]  #: new ones since the last call
    memory: Memory
    leads: Callable[[], bool]
    decided: Callable[[str], None] = lambda result: None  #: called with kept, advised, switched or lost

    def step(self, now_s: float, *, acting: bool) -> SynthesisStep | None:
        """Decide from new scores, and let a switch apply from this cycle on; None where there is nothing to decide.

        A switch and new advice are choices in the record of ``policy set``. Without the database nothing is switched.
        """
        played, synthesis = self.scores(), self.chosen.synthesis
        if played is None or synthesis is None or played.line != synthesis.line:
            return None
        before = synthesis.state.active
        if before.candidate not in played.scores.of or not self.leads():
            return None
        acts = acting and synthesis.may_switch
        step = SynthesisStep.of(synthesis.line, played.played_s, now_s, played.scores, before, acts=acts)
        state = replace(synthesis.state.after(step), frozen=synthesis.state.frozen)
        stored = True
        if step.active != before or state.advised not in ("", synthesis.state.advised):
            latest = self.chosen.choice
            line = latest.line if latest else ""
            choice = PolicyChoice(line, AUTO, now_s, step.decision.reason, state.to_json())
            stored = self.memory.choose_next(choice, latest)
            step = step if stored else replace(step, acts=False)
        self.chosen.latest_step = step
        self.decided(_result(step, stored))
        if stored:
            self.chosen.apply(self.memory.choice())
        return step


def _result(step: SynthesisStep, stored: bool) -> str:
    if not stored:
        return "lost"
    if step.decision.switched:
        return "switched" if step.acts else "advised"
    return "kept"
