"""The scheduling cycle: observe, remember, predict, decide, act; the daemon and the simulator run the same one."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from .clock import Clock, Timer
from .cluster.actions import Action, End, job_of
from .cluster.columns import among
from .cluster.plan import Plan, Standing
from .cluster.records.node_loans import LentNodes
from .cluster.records.outcomes import OutcomeTable
from .cluster.records.progress import NO_PROGRESS, ProgressTable
from .cluster.records.promises import SAME_S, PromiseTable
from .cluster.records.solved_starts import NO_SOLVED_STARTS, SolvedStarts
from .cluster.state import ClusterState, View
from .cluster.text.gpu_types import NVIDIAS, GpuParts
from .db.memory import Memory
from .db.tracking.decisions import DecisionRecord
from .decide.deadlines.promise_outcomes import JobEnds, settle
from .decide.policy import Policy
from .decide.turns import Turns
from .errors import SlurmError, SlurmUnavailable
from .models.port import Model
from .powers import with_halts
from .powers.decision import Decider, decide_here
from .powers.shadow import ShadowDecisions, others_in_shadow, shadow_here
from .slurm.port import ActionResult, Slurm
from .slurm.write.writer import Writer

logger = logging.getLogger(__name__)

MISSING_MOST = 100
"""Maximum number of jobs per cycle to look up after they vanished from the queue; later cycles take the rest."""

LATE_EVERY_S = 300.0
"""Minimum interval between accounting queries about jobs whose promises count as lost, in seconds."""

PHASES = ("observe", "remember", "predict", "decide", "act", "send", "answer", "record")
"""The phases of a cycle in order; send and answer occur only if there is something to write."""


class Surroundings:
    """What a cycle takes from the parts around it, and what it tells them; these have no parts."""

    def entering(self, phase: str) -> None:
        """Note that a phase of the cycle begins."""

    def observed(self, state: ClusterState) -> None:
        """Note what Slurm shows, before anything else is done with it."""

    def filled(self, state: ClusterState) -> ClusterState:
        """Return *state* with what is known of jobs and nodes beside what Slurm shows."""
        return state

    def solved(self) -> SolvedStarts:
        """Return the latest answer of the solver."""
        return NO_SOLVED_STARTS

    def progress(self) -> ProgressTable:
        """Return the progress of running jobs, and of those that wait again."""
        return NO_PROGRESS

    def let_end(self, job_ids: Sequence[int]) -> None:
        """Note all jobs to answer with a stop."""


@dataclass
class CycleContext:
    """The dependencies of a cycle, built once by ``cli`` or by the simulator."""

    cluster: Slurm
    memory: Memory
    model: Model
    policy: Policy
    writer: Writer
    clock: Clock
    learns: bool = True  #: from jobs as they end
    beside: Surroundings = field(default_factory=Surroundings)
    decider: Decider = decide_here
    shadow: ShadowDecisions = shadow_here
    gpu_parts: GpuParts = NVIDIAS
    turns: Turns = field(default_factory=lambda: Turns(math.inf))  #: none waits, since a simulation has no clock
    late: Timer = field(init=False)  #: until the next accounting query about lost promises
    _decided_by: tuple[Policy, Policy] = field(init=False)  #: a policy, and what the last cycle made of it

    def __post_init__(self) -> None:
        self.late = Timer(self.clock.monotonic)
        self._decided_by = self.policy, self.policy

    def policy_now(self, window: int, loans: tuple[LentNodes, ...] | None) -> Policy:
        """Return the policy for this moment; the same object as long as nothing about it changes."""
        base, last = self._decided_by
        rules, waiting = last.rules, self.turns.waiting
        if base is not self.policy or (rules.window, rules.loans, rules.waiting) != (window, loans, waiting):
            last = self.policy.over(window).lending(loans).without_turn(waiting)
            self._decided_by = self.policy, last
        return last


@dataclass(frozen=True)
class CycleReport:
    """The observations, decisions and actions of one cycle."""

    number: int
    now_s: float
    mode: str
    sentence: str
    phases_s: dict[str, float]
    decided_s: Mapping[str, float]  #: processor time by part of the decision
    waiting: frozenset[str]  #: powers that sat out the decision
    pending: int
    running: int
    ranked: int
    starving: int
    actions: dict[str, int]  #: sent and not refused, by kind
    refused: int  #: sent and refused by Slurm
    deferred: int  #: left to later cycles by the write budget
    order_lag_s: float  #: the longest time that a job has waited for its points
    window: int  #: number of jobs ordered, from the top
    fallbacks: tuple[str, ...]  #: parts that work in a degraded mode
    plugin_trouble: str  #: what happened to the plug-ins of the policy; empty if nothing did
    shadow_trouble: str  #: what happened to the ordering in shadow; empty if nothing did
    view: View
    plan: Plan
    ended: OutcomeTable


def run_cycle(context: CycleContext, number: int, now_s: float, mode: str) -> CycleReport:
    """Run one cycle. Raise SlurmUnavailable if Slurm gives no answer; a lost database costs only the history."""
    watch = _Stopwatch(context)
    watch.enter("observe")
    state = context.cluster.observe()
    missing = context.memory.missing(state, now_s)
    forgotten, unsettled = missing[:MISSING_MOST], missing[MISSING_MOST:]
    if not context.cluster.forgot(forgotten):
        raise SlurmUnavailable("the queue was read in part only: Slurm still has jobs that were not in it")
    context.beside.observed(state)
    watch.enter("remember")
    remembered = context.memory.remember(state, now_s, acting=mode == "act", forgotten=forgotten)
    state = remembered.state
    promises = context.memory.promises(now_s, acting=mode == "act")
    promises = _settled(context, promises, JobEnds.of(state, remembered.ended, unsettled), now_s)
    watch.enter("predict")
    if context.learns:
        context.model = context.model.learn(remembered.ended)
    view = _predicted(context, state, promises, now_s)
    watch.enter("decide")
    window = context.writer.lag.window(context.policy.rules.window)
    loans = context.memory.loans(state, acting=mode == "act")
    policy = context.policy_now(window, loans)
    decision = context.decider(view, policy)
    context.turns.decided(decision.took_s)
    policy, plan = decision.policy, decision.plan
    # In observe mode no new promise can be met, so none is stored.
    context.memory.keep_promises(plan.promises if mode == "act" else promises, now_s)
    watch.enter("act")
    _let_end(context, number, view, plan, mode)
    answers, deferred = _act(context, watch, number, plan, now_s) if mode == "act" else ((), 0)
    watch.enter("record")
    shadow, failed = context.shadow(view, policy), decision.failed
    plan = replace(plan, shadow=shadow.runs)
    if policy.shadow is not None and shadow.trouble:  # a replay would find what the record lacks
        failed = (*failed, f"shadow {policy.shadow.name!r}")
        policy = replace(policy, shadow=None)
    fallbacks = (*failed, *(() if context.memory.available else ("database",)))
    lag_s = context.writer.lag.lag_s(context.clock.monotonic())
    sentence = _sentence(view, plan, policy, mode, answers, deferred, lag_s, fallbacks)
    context.memory.save_decision(
        DecisionRecord(number, now_s, mode, view, plan, policy.to_json(), context.model.digest, sentence)
    )
    watch.stop()
    return CycleReport(
        number=number,
        now_s=now_s,
        mode=mode,
        sentence=sentence,
        phases_s=watch.phases_s,
        decided_s=decision.took_s,
        waiting=policy.rules.waiting,
        pending=len(view.pending),
        running=len(view.running),
        ranked=int((plan.jobs.rank >= 0).sum()),
        starving=int(plan.jobs.starving.sum()),
        actions=dict(Counter(answer.action.stored for answer in answers if answer.refused is None)),
        refused=sum(answer.refused is not None for answer in answers),
        deferred=deferred,
        order_lag_s=lag_s,
        window=policy.rules.window,
        fallbacks=fallbacks,
        plugin_trouble=decision.trouble,
        shadow_trouble=shadow.trouble,
        view=view,
        plan=plan,
        ended=remembered.ended,
    )


def _predicted(context: CycleContext, state: ClusterState, promises: PromiseTable, now_s: float) -> View:
    """Return the view that policies get: *state* with share scores, forecasts, and the halts to come."""
    state = context.beside.filled(state)
    forecast = context.model.forecast(state.pending, now_s, state.running).in_whole_seconds()
    forecast_running = context.model.forecast(state.running, now_s, state.running).in_whole_seconds()
    solved, progress = context.beside.solved(), context.beside.progress()
    view = View(
        now_s,
        state.pending,
        state.running,
        state.nodes,
        state.partitions,
        state.qos,
        forecast,
        forecast_running,
        promises,
        state.accounts,
        solved.take(among(solved.job_id, state.pending.job_id)),
        progress.take(among(progress.job_id, np.concatenate([state.running.job_id, state.pending.job_id]))),
        state.limits,
        state.reservations,
        state.topology,
        context.gpu_parts,
    )
    return with_halts(view, context.policy.rules)


def _settled(context: CycleContext, promises: PromiseTable, ends: JobEnds, now_s: float) -> PromiseTable:
    """Return *promises* with outcomes settled; runs whose end was not observed come from accounting, if it answers."""
    if not len(promises):
        return promises
    unseen, late = ends.unseen(promises), ends.late(promises, now_s) if context.late.due else []
    if late:
        context.late.put_off(LATE_EVERY_S)
    if unknown := unseen + late:
        since_s = float(promises.asked_s[np.isin(promises.job_id, unknown)].min()) - SAME_S
        try:
            past = context.cluster.past_runs(unknown, since_s)
        except SlurmError as error:
            logger.warning("whether promises to %d jobs were met is not known yet: %s", len(unseen), error)
            ends = ends.waiting_for(unseen)
        else:
            ends = ends.with_runs(past)
    return settle(promises, ends, now_s)


def _act(
    context: CycleContext, watch: _Stopwatch, number: int, plan: Plan, now_s: float
) -> tuple[tuple[ActionResult, ...], int]:
    """Send the writes that the budget allows. Intents are stored first, since the process may be killed in between."""
    writes = [action for action in plan.actions if action.is_write]
    notes = [action for action in plan.actions if not action.is_write and not isinstance(action, End)]
    _remember(context, number, notes, now_s)
    # What was refused before, Slurm may have taken over: nothing delays the end of a change that blocks its job.
    going_back = {job_of(action) for action in writes if action.ends_change}
    refused = context.memory.recently_refused(now_s) - (going_back - context.memory.kept_by_refusals())
    sending = context.writer.affordable(writes, refused, context.clock.monotonic())
    if not sending:
        return (), len(writes)
    sending = context.memory.intend(number, sending, now_s)
    watch.enter("send")
    answers = context.writer.send(sending)
    watch.enter("answer")
    results: list[tuple[Action, str | None]] = [(answer.action, answer.refused) for answer in answers]
    context.memory.answered(number, results, now_s)
    return answers, len(writes) - len(sending)


def _let_end(context: CycleContext, number: int, view: View, plan: Plan, mode: str) -> None:
    """Let jobs end from now on, and no others: answers to their own reports, and no writes."""
    ends = [action for action in plan.actions if isinstance(action, End)] if mode == "act" else []
    context.beside.let_end([action.job_id for action in ends])
    before = set(view.progress.job_id[view.progress.may_end].tolist())
    _remember(context, number, [action for action in ends if action.job_id not in before], view.now_s)


def _remember(context: CycleContext, number: int, actions: Sequence[Action], now_s: float) -> None:
    """Record *actions* that are no writes to Slurm."""
    if actions:
        context.memory.intend(number, actions, now_s)
        context.memory.answered(number, [(action, None) for action in actions], now_s)


def _sentence(
    view: View,
    plan: Plan,
    policy: Policy,
    mode: str,
    answers: tuple[ActionResult, ...],
    deferred: int,
    lag_s: float,
    fallbacks: tuple[str, ...],
) -> str:
    """Return the one-line summary of the cycle for the log and ``status``."""
    ranked = int((plan.jobs.rank >= 0).sum())
    parts = [f"{mode}: {len(view.pending)} pending, {len(view.running)} running"]
    outside = int((plan.jobs.standing == Standing.OUTSIDE).sum())
    alone = len(view.pending) - ranked - outside
    order = f"{ranked} in {policy.ordering.name} order"
    order += f", {outside} outside" if outside else ""
    parts.append(order + (f", {alone} left alone" if alone else ""))
    if plan.solved:
        parts.append("promises by the solver's plan")
    if policy.shadow is not None:
        others = others_in_shadow(plan, view)
        parts.append(f"{policy.shadow.name} in shadow would run {others or 'no'} other{'' if others == 1 else 's'} now")
    if mode == "act":
        refused = sum(answer.refused is not None for answer in answers)
        parts.append(
            f"wrote {len(answers) - refused}"
            + (f", {refused} refused" if refused else "")
            + (f", {deferred} left for later" if deferred else "")
        )
        if lag_s:
            parts.append(f"the order lags by {lag_s:.0f} s")
    elif plan.actions:
        parts.append(f"would write {len(plan.actions)}")
    parts += [f"{part} away" for part in fallbacks]
    return "; ".join(parts)


class _Stopwatch:
    """A timer of phases that reports the start of each one."""

    def __init__(self, context: CycleContext) -> None:
        self._context = context
        self._began_s = 0.0
        self._phase = ""
        self.phases_s: dict[str, float] = {}

    def enter(self, phase: str) -> None:
        self.stop()
        self._phase, self._began_s = phase, self._context.clock.monotonic()
        self._context.beside.entering(phase)

    def stop(self) -> None:
        if self._phase:
            self.phases_s[self._phase] = self._context.clock.monotonic() - self._began_s
        self._phase = ""
