"""Answers from the daemon's latest cycle, its model, its predictions and its database."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..cluster.plan import Plan
from ..cluster.state import View
from ..decide.rules import Rules
from ..explain.causes import cause_of
from ..explain.deadlines import DeadlineAnswer
from ..explain.eta import Eta
from ..explain.explain import Explanation, explain, queue
from ..explain.passed import passed_words
from ..explain.queue_place import order_is_off
from ..explain.shadow import order_words
from ..explain.why import Circumstances, Why, why
from ..models.runtime.active import overrunners_of
from ..models.runtime.guarded import GuardedModel
from .api.questions.contract import Sources
from .api.record_summaries import FigureQueries
from .daemon_status import DaemonStatus
from .parts import Parts
from .predictions.hypothetical_job import check_deadline, try_out
from .predictions.play_forward import live_predictions, with_new_job


class LiveAnswers:
    """The sources of a running daemon's answers, by its *parts*; called in threads other than the cycle's."""

    def __init__(self, parts: Parts, figures: FigureQueries) -> None:
        self._parts, self._figures, self._facts, self._context = parts, figures, parts.facts, parts.context

    def sources(self, status: Callable[[], DaemonStatus]) -> Sources:
        """Return all sources; *status* reports the state of the daemon."""
        parts, learnt = self._parts, self._parts.knowledge
        return Sources(
            status=lambda: self._status(status()),
            why=lambda view, plan, job_id, beside: self._why(view, plan, job_id, beside, status()),
            explain=self._explanation,
            queue=queue,
            story=lambda job_id, since_s: parts.store.story(parts.cluster_name, job_id, since_s),
            passed=self._passed,
            rules=lambda: self._rules,
            overrunners=lambda: overrunners_of(self._context.model),
            links=lambda: self._figures.answer("links")["rows"],
            spread=learnt.speeds.by_spread,
            types=learnt.speeds.by_type,
            stranded=learnt.stranded.table,
            fragmented=learnt.fragmented.table,
            idle=parts.idle.latest,
            orders=parts.orders.of,
            check=self._check,
            cause=lambda view, plan, row: cause_of(view, plan, self._rules, row),
            predictions=lambda: live_predictions(parts.settings.predict, parts.predictions),
            eta_check=self._eta_check,
            figures=self._figures.answer,
            report=self._figures.report,
            starting=parts.code.missing,
            order_off=lambda mode: order_is_off(mode, status()["why_mode"], self._rules.powers) or self._trial_off,
            private=lambda: self._facts.private_jobs,
            operator=lambda user: user in self._facts.latest.operators,
        )

    @property
    def _trial_off(self) -> str:
        return self._parts.trial.order_off(self._parts.clock.now())

    @property
    def _rules(self) -> Rules:
        return self._context.policy.rules

    def _status(self, status: DaemonStatus) -> DaemonStatus:
        model, policy = self._parts.active_model.described(self._context.model), self._parts.active_policy.status()
        if self._trial_off:
            policy = {**policy, "notes": [*policy["notes"], self._trial_off]}
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
        """Say who passed a job by our order, and where it would be without; empty where that is not in force."""
        row, runs = view.pending.row_of(job_id), view.running.row_of(job_id)
        if runs is not None and not beside.order_off:
            return self._parts.replay.started_words(view, runs)
        if row is None or beside.order_off or plan.jobs.rank[row] < 0:
            return ""
        passed = self._parts.passed.count(job_id, float(view.pending.first_submit_s[row]))
        return passed_words(view, plan, row, passed, self._parts.replay.place_words(view, row))

    def _chosen_composition(self) -> str:
        """Return the composition that ``auto`` chose last, and why, in a sentence; empty where it chose none."""
        synthesis = self._parts.active_policy.synthesis
        step = None if synthesis is None else synthesis.state.step
        if synthesis is None or step is None or not (step.acts and step.decision.switched):
            return ""
        return f"The order of jobs is {synthesis.state.active.candidate}, by auto: {step.decision.reason}."

    def _explanation(self, view: View, plan: Plan, job_id: int, beside: Circumstances) -> Explanation:
        """Explain the place of a job in the order, and its forecast where the model can be decomposed."""
        waits, model = view.pending.row_of(job_id), self._context.model
        jobs, row = (view.running, view.running.row_of(job_id)) if waits is None else (view.pending, waits)
        if row is None:
            return explain(view, plan, self._rules, job_id, beside)
        score = self._parts.knowledge.sharing.why(jobs, row) if jobs.measured[row] else ""
        reasons = model.reasons(jobs, row) if isinstance(model, GuardedModel) else ()
        policy = self._context.policy.without_plugins()
        more = order_words(view, replace(policy, shadow=None) if self._parts.shadow.trouble else policy, job_id)
        return explain(view, plan, self._rules, job_id, beside, score=score, reasons=reasons, more=more)

    def _check(self, view: View, plan: Plan, options: str, user: str) -> DeadlineAnswer:
        """Check the deadline that a job of *user* with these sbatch *options* would be promised now."""
        permissions, model = self._facts.latest.permissions, self._context.model
        return check_deadline(view, plan, permissions, model, self._rules, options, user)

    def _eta_check(self, view: View, plan: Plan, options: str, user: str) -> Eta:
        """Predict the start and finish of a job of *user* with these sbatch *options*."""
        policy = self._context.policy.without_plugins()  # whose code may hang
        return try_out(
            view,
            self._facts.latest.permissions,
            self._context.model,
            lambda job, forecast: with_new_job(self._parts.predictions, view, job, forecast, policy),
            options,
            user,
            self._parts.suggestions.of,
        )
