"""Answers from the daemon's latest cycle, its model, its predictions and its database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ...cluster.kind_speeds import SpreadSpeed, TypeSpeed
from ...cluster.plan import Plan
from ...cluster.state import View
from ...cluster.stranded_gpus import StrandedBy
from ...config.settings import PredictSettings
from ...cycle import CycleContext
from ...db.store import Store
from ...decide.fragmented_waits import Fragmentation
from ...decide.rules import Rules
from ...explain.causes import cause_of
from ...explain.deadlines import DeadlineAnswer, check
from ...explain.eta import Eta
from ...explain.explain import Explanation, explain, queue
from ...explain.passed import PassedBy, passed_words
from ...explain.queue_place import order_is_off
from ...explain.shadow import order_words
from ...explain.why import Circumstances, Why, why
from ...models.runtime.active import ActiveModel, overrunners_of
from ...models.runtime.guarded import GuardedModel
from ..active_policy import ActivePolicy
from ..cluster_facts import ClusterFacts
from ..daemon_status import DaemonStatus
from ..predictions.hypothetical_job import new_job, try_out
from ..predictions.play_forward import live_predictions, with_new_job
from ..predictions.prediction_service import PredictionService
from ..sharing_context import SharingContext
from .questions.contract import Sources
from .record_summaries import FigureQueries


@dataclass(frozen=True, kw_only=True)
class LiveAnswers:
    """The sources of a running daemon's answers; called in threads other than the cycle's."""

    world: CycleContext
    facts: ClusterFacts
    store: Store
    serving: ActiveModel
    chosen: ActivePolicy
    sharer: SharingContext
    figures: FigureQueries
    predictions: PredictionService | None
    predict: Callable[[], PredictSettings]
    spread: Callable[[], Sequence[SpreadSpeed]]
    shadow_trouble: Callable[[], str]  #: of the ordering in shadow; empty while it works
    types: Callable[[], Sequence[TypeSpeed]]
    starting: Callable[[], str]  #: why compiled code cannot be run yet; empty where it can
    stranded: Callable[[], Sequence[StrandedBy]]
    fragmented: Callable[[], Sequence[Fragmentation]]
    passed: PassedBy

    def sources(self, status: Callable[[], DaemonStatus]) -> Sources:
        """Return all sources; *status* reports the state of the daemon."""
        return Sources(
            status=lambda: self._status(status()),
            why=lambda view, plan, job_id, beside: self._why(view, plan, job_id, beside, status()),
            explain=self._explanation,
            queue=queue,
            rules=lambda: self._rules,
            overrunners=lambda: overrunners_of(self.world.model),
            links=lambda: self.figures.answer("links")["rows"],
            spread=self.spread,
            types=self.types,
            stranded=self.stranded,
            fragmented=self.fragmented,
            check=self._check,
            cause=lambda view, plan, row: cause_of(view, plan, self._rules, row),
            predictions=lambda: live_predictions(self.predict(), self.predictions),
            eta_check=self._eta_check,
            figures=self.figures.answer,
            report=self.figures.report,
            starting=self.starting,
            story=lambda job_id, since_s: self.store.story(self.facts.latest.cluster, job_id, since_s),
            order_off=lambda mode: order_is_off(mode, status()["why_mode"], self._rules.powers),
            private=lambda: self.facts.private_jobs,
            operator=lambda user: user in self.facts.latest.operators,
        )

    @property
    def _rules(self) -> Rules:
        return self.world.policy.rules

    def _status(self, status: DaemonStatus) -> DaemonStatus:
        model, policy = self.serving.described(self.world.model), self.chosen.status()
        return {**status, "model": model, "policy": policy}

    def _why(self, view: View, plan: Plan, job_id: int, beside: Circumstances, status: DaemonStatus) -> Why:
        """Explain why a job waits, who chose the order, and what became of a plug-in that should."""
        trouble = status["cycle"]["plugin_trouble"] if "cycle" in status else ""
        more = (
            self._passed(view, plan, job_id, beside),
            self._chosen_composition(),
            f"In the last cycle {trouble}." if trouble else "",
        )
        return why(view, plan, self._rules, job_id, replace(beside, more=tuple(filter(None, more))))

    def _passed(self, view: View, plan: Plan, job_id: int, beside: Circumstances) -> str:
        """Return who passed a pending job by our order, in a sentence; empty where that is not in force."""
        row = view.pending.row_of(job_id)
        if row is None or beside.order_off or plan.jobs.rank[row] < 0:
            return ""
        passed = self.passed.count(job_id, float(view.pending.first_submit_s[row]))
        return passed_words(view, plan, row, passed)

    def _chosen_composition(self) -> str:
        """Return the composition that ``auto`` chose last, and why, in a sentence; empty where it chose none."""
        synthesis = self.chosen.synthesis
        step = None if synthesis is None else synthesis.state.step
        if synthesis is None or step is None or not (step.acts and step.decision.switched):
            return ""
        return f"The order of jobs is {synthesis.state.active.candidate}, by auto: {step.decision.reason}."

    def _explanation(self, view: View, plan: Plan, job_id: int, beside: Circumstances) -> Explanation:
        """Explain the place of a job in the order, and its forecast where the model can be decomposed."""
        waits, model = view.pending.row_of(job_id), self.world.model
        jobs, row = (view.running, view.running.row_of(job_id)) if waits is None else (view.pending, waits)
        if row is None:
            return explain(view, plan, self._rules, job_id, beside)
        score = self.sharer.why(jobs, row) if jobs.measured[row] else ""
        reasons = model.reasons(jobs, row) if isinstance(model, GuardedModel) else ()
        policy = self.world.policy.without_plugins()
        more = order_words(view, replace(policy, shadow=None) if self.shadow_trouble() else policy, job_id)
        return explain(view, plan, self._rules, job_id, beside, score=score, reasons=reasons, more=more)

    def _check(self, view: View, plan: Plan, options: str, user: str) -> DeadlineAnswer:
        """Check the deadline that a job of *user* with these sbatch *options* would be promised now."""
        tried = new_job(view, self.facts.latest.permissions, options, user)
        answer = check(view, plan, tried.job, self.world.model.forecast(tried.job, view.now_s), self._rules)
        return replace(answer, not_understood=tried.not_understood)

    def _eta_check(self, view: View, plan: Plan, options: str, user: str) -> Eta:
        """Predict the start and finish of a job of *user* with these sbatch *options*."""
        policy = self.world.policy.without_plugins()  # whose code may hang
        return try_out(
            view,
            self.facts.latest.permissions,
            self.world.model,
            lambda job, forecast: with_new_job(self.predictions, view, job, forecast, policy),
            options,
            user,
        )
