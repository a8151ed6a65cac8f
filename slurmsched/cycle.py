"""One cycle: observe, remember, predict, decide, act. In real time in the daemon, in virtual time in the simulator."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from .clock import Clock, Timer
from .cluster.actions import Action
from .cluster.plan import Plan
from .cluster.records.outcomes import OutcomeTable
from .cluster.records.promises import SAME_S, PromiseTable
from .cluster.state import ClusterState, View
from .db.memory import Memory
from .db.tracking.decisions import DecisionRecord
from .decide.deadlines.promise_outcomes import JobEnds, settle
from .decide.engine import decide
from .decide.policy import Policy
from .errors import SlurmError, SlurmUnavailable
from .models.port import Model
from .slurm.port import ActionResult, Slurm
from .slurm.write.writer import Writer

logger = logging.getLogger(__name__)

MISSING_MOST = 100
"""Jobs that one cycle asks about because the queue no longer shows them; the rest are for later cycles."""

LATE_EVERY_S = 300.0
"""So often accounting is asked about jobs whose promises count as lost."""

PHASES = ("observe", "remember", "predict", "decide", "act", "send", "answer", "record")
"""In this order; send and answer only where there is something to write."""


def _nothing(news: object) -> None:
    """Nobody watches."""


def _as_it_is(state: ClusterState) -> ClusterState:
    """Nobody shares."""
    return state


@dataclass
class CycleContext:
    """Everything a cycle works with, put together once by ``cli`` or by the simulator."""

    cluster: Slurm
    memory: Memory
    model: Model
    policy: Policy
    writer: Writer
    clock: Clock
    learns: bool = True  #: from jobs as they end
    site: Mapping[str, str] = field(default_factory=dict)  #: ``scontrol show config``
    entering: Callable[[str], None] = _nothing  #: told of each phase as it begins
    observed: Callable[[ClusterState], object] = _nothing  #: told what Slurm said, first of all
    scored: Callable[[ClusterState], ClusterState] = _as_it_is  #: fills in the share scores of jobs
    late: Timer = field(init=False)  #: before accounting is asked about lost promises again

    def __post_init__(self) -> None:
        self.late = Timer(self.clock.monotonic)


@dataclass(frozen=True)
class CycleReport:
    """What one cycle saw, wanted and did."""

    number: int
    now_s: float
    mode: str
    sentence: str
    phases_s: dict[str, float]
    pending: int
    running: int
    ranked: int
    starving: int
    actions: dict[str, int]  #: sent and not refused, by kind
    refused: int  #: sent, and Slurm said no
    deferred: int  #: wanted, and left to later cycles by the budget
    order_lag_s: float  #: for how long a job has waited for the points it should have, at most
    window: int  #: jobs from the top that are ordered
    fallbacks: tuple[str, ...]  #: parts that serve in a degraded way
    view: View
    plan: Plan
    ended: OutcomeTable


def run_cycle(world: CycleContext, number: int, now_s: float, mode: str) -> CycleReport:
    """The five arrows. Raises SlurmUnavailable where Slurm gives no answer; a lost database costs only the history."""
    watch = _Stopwatch(world)
    watch.enter("observe")
    state = world.cluster.observe()
    missing = world.memory.missing(state, now_s)
    forgotten, unsettled = missing[:MISSING_MOST], missing[MISSING_MOST:]
    if not world.cluster.forgot(forgotten):
        raise SlurmUnavailable("the queue was read in part only: Slurm still has jobs that were not in it")
    world.observed(state)
    watch.enter("remember")
    remembered = world.memory.remember(state, now_s, acting=mode == "act", forgotten=forgotten)
    state = remembered.state
    promises = world.memory.promises(now_s, acting=mode == "act")
    promises = _settled(world, promises, JobEnds.of(state, remembered.ended, unsettled), now_s)
    watch.enter("predict")
    if world.learns:
        world.model = world.model.learn(remembered.ended)
    view = _predicted(world, state, promises, now_s)
    watch.enter("decide")
    policy = world.policy.capped_for(view.qos, world.site).over(world.writer.lag.window(world.policy.rules.window))
    plan = decide(view, policy.ordering, policy.rules)
    # Who only looks on can keep nothing new.
    world.memory.keep_promises(plan.promises if mode == "act" else promises, now_s)
    watch.enter("act")
    answers, deferred = _act(world, watch, number, plan, now_s) if mode == "act" else ((), 0)
    watch.enter("record")
    fallbacks = () if world.memory.available else ("database",)
    lag_s = world.writer.lag.lag_s(world.clock.monotonic())
    sentence = _sentence(view, plan, policy, mode, answers, deferred, lag_s, fallbacks)
    world.memory.save_decision(
        DecisionRecord(number, now_s, mode, view, plan, policy.to_json(), world.model.digest, sentence)
    )
    watch.stop()
    return CycleReport(
        number=number,
        now_s=now_s,
        mode=mode,
        sentence=sentence,
        phases_s=watch.phases_s,
        pending=len(view.pending),
        running=len(view.running),
        ranked=int((plan.jobs.rank >= 0).sum()),
        starving=int(plan.jobs.starving.sum()),
        actions=dict(Counter(type(answer.action).__name__ for answer in answers if answer.refused is None)),
        refused=sum(answer.refused is not None for answer in answers),
        deferred=deferred,
        order_lag_s=lag_s,
        window=policy.rules.window,
        fallbacks=fallbacks,
        view=view,
        plan=plan,
        ended=remembered.ended,
    )


def _predicted(world: CycleContext, state: ClusterState, promises: PromiseTable, now_s: float) -> View:
    """*state* with share scores and forecasts, as policies see it."""
    state = world.scored(state)
    forecast = world.model.forecast(state.pending, now_s).in_whole_seconds()
    forecast_running = world.model.forecast(state.running, now_s).in_whole_seconds()
    return View(
        now_s,
        state.pending,
        state.running,
        state.nodes,
        state.partitions,
        state.qos,
        forecast,
        forecast_running,
        promises,
    )


def _settled(world: CycleContext, promises: PromiseTable, ends: JobEnds, now_s: float) -> PromiseTable:
    """*promises* as they stand now, with the runs of jobs that nobody saw end from accounting, once that answers."""
    unseen, late = ends.unseen(promises), ends.late(promises, now_s) if world.late.due else []
    if late:
        world.late.put_off(LATE_EVERY_S)
    if asked := unseen + late:
        since_s = float(promises.asked_s[np.isin(promises.job_id, asked)].min()) - SAME_S
        try:
            past = world.cluster.past_runs(asked, since_s)
        except SlurmError as error:
            logger.warning("whether promises to %d jobs were met is not known yet: %s", len(unseen), error)
            ends = ends.waiting_for(unseen)
        else:
            ends = ends.with_runs(past)
    return settle(promises, ends, now_s)


def _act(
    world: CycleContext, watch: _Stopwatch, number: int, plan: Plan, now_s: float
) -> tuple[tuple[ActionResult, ...], int]:
    """Write what the budget allows. What we are about to ask is remembered first: we may be killed between."""
    refused = world.memory.recently_refused(now_s)
    sending = world.writer.affordable(plan.actions, refused, world.clock.monotonic())
    if not sending:
        return (), len(plan.actions)
    world.memory.intend(number, sending, now_s)
    watch.enter("send")
    answers = world.writer.send(sending)
    watch.enter("answer")
    results: list[tuple[Action, str | None]] = [(answer.action, answer.refused) for answer in answers]
    world.memory.answered(number, results, now_s)
    return answers, len(plan.actions) - len(sending)


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
    """The cycle in one line, as the log and ``status`` show it."""
    ranked = int((plan.jobs.rank >= 0).sum())
    parts = [f"{mode}: {len(view.pending)} pending, {len(view.running)} running"]
    order = f"{ranked} in {policy.ordering.name} order"
    parts.append(order + (f", {len(view.pending) - ranked} left alone" if ranked < len(view.pending) else ""))
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
    """Times the phases, and tells whoever watches that one begins."""

    def __init__(self, world: CycleContext) -> None:
        self._world = world
        self._began_s = 0.0
        self._phase = ""
        self.phases_s: dict[str, float] = {}

    def enter(self, phase: str) -> None:
        self.stop()
        self._phase, self._began_s = phase, self._world.clock.monotonic()
        self._world.entering(phase)

    def stop(self) -> None:
        if self._phase:
            self.phases_s[self._phase] = self._world.clock.monotonic() - self._began_s
        self._phase = ""
