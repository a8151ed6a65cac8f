"""The actor behind mlfs-rl in ``slurmsched train``: its training, and the review of an active one."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from ...cli.app import App
from ...cli.failure import Failed
from ...cli.models.training_progress import active_artifact, showing
from ...cli.output import Cell, TextTable, emit
from ...errors import ModelUnusable, TooLittleHistory

if TYPE_CHECKING:
    from ...cli.json_answers import ActorTraining, Decision, TrainedModel
    from ..actor.weeks import Weeks

DAY_S = 86400.0


def train_actor_of(
    app: App,
    trace: str | None,
    from_db_s: float | None,
    cluster_name: str | None,
    seed: int,
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Train and judge the actor; write it unless it was not promoted and the active one was."""
    from ...models.registry import ACTOR
    from ...simulator.traces.source import Source
    from ..actor.judgement import demand_extra, train_actor
    from ..actor.weeks import Weeks

    artifacts = app.artifacts()
    with artifacts.training():
        with showing("training the actor") as report:
            try:
                site = _weeks_of_site(app, from_db_s, cluster_name) if from_db_s is not None or not trace else None
                weeks = Weeks.of_trace(Source.of(trace, 8).load().workload) if trace else site
                assert weeks is not None
                demand_extra()
                found = train_actor(weeks, seed, judged_on=site, report=report)
            except TooLittleHistory as error:
                raise Failed(f"{error}; what serves stays") from error
        before = active_artifact(artifacts, ACTOR)
        if not dry_run and (found.promoted or before is None or not before.scores.get("promoted")):
            artifacts.put(found.artifact(weeks.jobs))
    figures: list[list[Cell]] = [
        [name, *(float(f"{value:.4g}") for value in asdict(one).values())] for name, one in found.against.items()
    ]
    table = TextTable(("AGAINST", "JCT RATIO", "LOW", "HIGH", "DEADLINES MET MORE"), figures)
    verdict = f"{'promoted' if found.promoted else 'not promoted'}: {found.why}"
    facts: ActorTraining = {"dry_run": dry_run, **found.to_dict()}
    emit(facts, verdict, table, as_json=as_json)


def review_actor(app: App, cluster_name: str | None, *, dry_run: bool) -> TrainedModel:
    """Review the active actor on the site's last week; return the result as ``train`` shows it."""
    from ...daemon.active_actor import FALLBACK
    from ...models.registry import ACTOR
    from ..actor.judgement import reviewed

    artifacts = app.artifacts()
    try:
        result = reviewed(artifacts.read(ACTOR), _weeks_of_site(app, None, cluster_name), FALLBACK)
    except (TooLittleHistory, ModelUnusable) as error:
        return _reviewed("kept", f"not reviewed: {error}")
    if result.stays:
        return _reviewed("kept", result.why)
    if dry_run:
        return _reviewed("would be withdrawn", result.why)
    artifacts.put(result.artifact)
    return _reviewed("withdrawn", result.why)


def _reviewed(decision: Decision, why: str) -> TrainedModel:
    from ...models.registry import ACTOR

    return {"model": ACTOR, "decision": decision, "why": why, "scores": {}, "digest": None}


def _weeks_of_site(app: App, span_s: float | None, cluster_name: str | None) -> Weeks:
    """Return the weeks in the database, on the nodes of the last recorded cycle."""
    from ...simulator.traces.database import from_store
    from ...simulator.traces.trace import TraceError
    from ..actor.weeks import Weeks

    store, name = app.store(), cluster_name or app.cluster_name()
    record = store.latest_decision(name)
    if record is None:
        raise TooLittleHistory("no cycle is recorded yet that has the nodes of the cluster")
    span_s = span_s or app.settings().models.train_days * DAY_S
    try:
        jobs = from_store(store, name, app.clock.now() - span_s).workload
    except TraceError as error:
        raise TooLittleHistory(str(error)) from error
    return Weeks.of_site(jobs, record.view.nodes)
