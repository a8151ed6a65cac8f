"""``slurmsched train``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import click

from ...cluster.text.plural import count
from ...errors import TooLittleHistory
from ...extensions import TRAINING, ResearchMissing, load_research
from ..app import App
from ..failure import NotFound
from ..output import Cell, TextTable, emit, table_options
from ..study.option_types import SpanType
from ..time_format import moment
from .training_progress import active_artifact, showing

if TYPE_CHECKING:
    from ...cluster.records.outcomes import OutcomeTable
    from ...models.registry import ArtifactRegistry
    from ...models.runtime.gpu_use_history import UseHistory
    from ...models.training_result import Trained
    from ..json_answers import Decision, TrainedModel, Training

Step = Callable[[Callable[[str], None]], "Trained"]
"""Trains a model; reports progress to its argument."""

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
DAY_S = 86400.0


@click.command()
@click.option(
    "--model",
    "kinds",
    type=click.Choice(["runtime", "throughput", "sharing", "actor"]),
    multiple=True,
    help="The kind of model; repeatable.  [default: runtime throughput]",
)
@click.option("--from-db", "from_db_s", type=SpanType(), metavar="SPAN", help="The last 30d, 52w of the database.")
@click.option("--cluster-name", help="The cluster, where the database has several.")
@click.option("--trace", metavar="TRACE", help="A file of jobs, or synthetic:JOBS[:LOAD], not the database.")
@click.option("--configs", type=FILE, help="CSV of configurations run alone, for the sharing model.")
@click.option("--pairs", type=FILE, help="CSV of pairs of configurations and their speeds.")
@click.option("--seed", type=click.IntRange(min=0), help="Of the training of the actor.  [default: 0]")
@click.option("--dry-run", is_flag=True, help="Train and test, but activate nothing.")
@table_options
@click.pass_obj
def train(
    app: App,
    /,
    kinds: tuple[str, ...],
    from_db_s: float | None,
    cluster_name: str | None,
    trace: str | None,
    seed: int | None,
    dry_run: bool,
    as_json: bool,
    **files: Path | None,
) -> None:
    """Train models on history, and activate those that are better.

    Each is tested on the last part of the history, which it is not trained on, against simple rules and against the
    active model. Exit status 1 where a training failed. It is no failure if another model is better, or if the history
    is still too short.

    Without --configs and --pairs the sharing model learns from the database: from the speed that jobs, which report
    their iterations, kept beside others on their GPUs.

    The actor is the network behind the ordering mlfs-rl. It is trained on the weeks of --trace or of the database,
    judged on the last four, and stays inactive unless it beats every static order there. With both it is trained on
    the trace and judged on the site's own weeks. That takes half an hour. An active one that was worse than mlfs-h
    in the site's last week is withdrawn.
    """
    if trace and from_db_s is not None and "actor" not in kinds:
        raise click.UsageError("--trace and --from-db exclude each other: history comes from one of them.")
    wanted = tuple(dict.fromkeys(kinds)) or ("runtime", "throughput")
    if "sharing" in wanted and not all(files.values()) and (trace or any(files.values())):
        raise click.UsageError("the sharing model needs --configs FILE and --pairs FILE, or the database.")
    if "sharing" not in wanted and any(files.values()):
        raise click.UsageError("--configs and --pairs go with --model sharing.")
    if "actor" in wanted:
        if len(wanted) > 1:
            raise click.UsageError("--model actor is trained by itself.")
        _actor_trainer()(app, trace, from_db_s, cluster_name, seed or 0, dry_run=dry_run, as_json=as_json)
        return
    if seed is not None:
        raise click.UsageError("--seed goes with --model actor.")
    from ...models.runtime.gpu_use_history import UseHistory

    artifacts = app.artifacts()
    history, use = None, UseHistory.of(())
    if set(wanted) - {"sharing"}:
        history, use = _of_trace(trace) if trace else _of_database(app, from_db_s, cluster_name)
    with artifacts.training():
        steps = [
            (
                kind,
                _sharing_step(app, artifacts, from_db_s, cluster_name, files)
                if kind == "sharing"
                else _step(app, artifacts, kind, history, use),
            )
            for kind in wanted
        ]
        results = list(_watched(steps))
        if not dry_run:
            for result in results:
                if result.trained and result.trained.promoted:
                    artifacts.put(result.trained.promoted)
        review = None if trace else _reviewed(app, cluster_name, dry_run=dry_run)
    _print_results(history, results, review, dry_run=dry_run, as_json=as_json)
    if any(result.failed for result in results):
        raise SystemExit(1)


class ActorTrainer(Protocol):
    """Trains and judges the actor, and writes it unless it was not promoted and the active one was."""

    def __call__(
        self,
        app: App,
        trace: str | None,
        from_db_s: float | None,
        cluster_name: str | None,
        seed: int,
        *,
        dry_run: bool,
        as_json: bool,
    ) -> None:
        """Train on *trace*, or else on the database, and print the result."""


class ActorReview(Protocol):
    """Judges the active actor by the site's last week, and withdraws it where it was worse than its fallback."""

    def __call__(self, app: App, cluster_name: str | None, *, dry_run: bool) -> TrainedModel:
        """Return the result as ``train`` shows it."""


def _actor_trainer() -> ActorTrainer:
    trainer: ActorTrainer = load_research(TRAINING, "actor", "the training of the actor")
    return trainer


def _reviewed(app: App, cluster_name: str | None, *, dry_run: bool) -> TrainedModel | None:
    """Return the review of a promoted actor, None without one."""
    from ...models.registry import ACTOR

    active = active_artifact(app.artifacts(), ACTOR)
    if active is None or not active.scores.get("promoted"):
        return None
    try:
        review: ActorReview = load_research(TRAINING, "review", "the review of the actor")
    except ResearchMissing as error:
        return {"model": ACTOR, "decision": "kept", "why": f"not reviewed: {error}", "scores": {}, "digest": None}
    return review(app, cluster_name, dry_run=dry_run)


@dataclass(frozen=True)
class TrainingOutcome:
    """The result for one kind; *trained* is None where *why* gives the reason for a failure."""

    kind: str
    trained: Trained | None
    why: str
    too_early: bool = False  #: the history is too short yet

    @property
    def failed(self) -> bool:
        """True if there should be a model and is none."""
        return self.trained is None and not self.too_early


def _step(
    app: App,
    artifacts: ArtifactRegistry,
    kind: str,
    history: OutcomeTable | None,
    use: UseHistory,
) -> Step:
    """Return the training step for a model of this *kind*, of runtimes or of submissions."""
    from ...models.arrivals import settled_s
    from ...models.training import train_runtime, train_throughput

    active = active_artifact(artifacts, kind)
    runs = history
    assert runs is not None
    if kind == "throughput":
        first = runs.take(runs.restart == 0)
        until_s = settled_s(first.first_submit_s, first.ended_s)
        return lambda _: train_throughput(first.first_submit_s, first.gpus, until_s, active)
    section = app.settings().models
    return lambda report: train_runtime(
        runs, active, interpretable_only=section.interpretable_only, profiles=use, rising=section.rising, report=report
    )


def _sharing_step(
    app: App,
    artifacts: ArtifactRegistry,
    from_db_s: float | None,
    cluster_name: str | None,
    files: dict[str, Path | None],
) -> Step:
    """Return the training step for the sharing model: by *files*, else by what jobs kept beside others."""
    from ...models.registry import shipped
    from ...models.sharing.pair_measurements import Measured
    from ...models.sharing.site_speeds import LEAST_S, train_speeds
    from ...models.training import train_sharing

    active, now_s = active_artifact(artifacts, "sharing"), app.clock.now()
    configs, pairs = files["configs"], files["pairs"]
    if configs and pairs:
        return lambda _: train_sharing(Measured.read(configs, pairs), now_s, active or shipped())
    since_s = now_s - (from_db_s or app.settings().models.train_days * DAY_S)
    times = app.store().measured_times(cluster_name or app.cluster_name(), since_s, LEAST_S)
    known_s = active.trained_until_s if active and "measured_times" in active.scores else 0.0
    return lambda _: train_speeds(times, active or shipped(), known_s=known_s)


def _watched(steps: Sequence[tuple[str, Step]]) -> Iterator[TrainingOutcome]:
    """Yield the result of each step, and show progress on standard error."""
    for kind, step in steps:
        with showing(f"training the {kind} model") as report:
            try:
                trained = step(report)
            except TooLittleHistory as error:
                yield TrainingOutcome(kind, None, f"{error}; what serves stays", too_early=True)
            except ValueError as error:
                yield TrainingOutcome(kind, None, f"not trained: {error}")
            else:
                yield TrainingOutcome(kind, trained, trained.why)


def _of_database(app: App, span_s: float | None, cluster_name: str | None) -> tuple[OutcomeTable, UseHistory]:
    """Return the runs in the database, and their measurements."""
    from ...models.runtime.gpu_use_history import UseHistory

    span_s = span_s or app.settings().models.train_days * DAY_S
    store, name = app.store(), cluster_name or app.cluster_name()
    runs = store.history(name, since_s=app.clock.now() - span_s)
    if not len(runs) and cluster_name:
        raise NotFound(f"the database holds no runs of {name} of that time; try: slurmsched history import")
    measured = store.measured(name, app.clock.now() - span_s)
    return runs, UseHistory.of((kind, use) for _, kind, use in measured)


def _of_trace(trace: str) -> tuple[OutcomeTable, UseHistory]:
    """Return the runs and measurements of a trace file, each job as if it had never waited."""
    from ...models.runtime.gpu_use_history import UseHistory
    from ...simulator.trace_forecasts import as_outcomes, measured_in
    from ...simulator.traces.source import Source

    jobs = Source.of(trace, 8).load().workload
    return as_outcomes(jobs), UseHistory.of(measured_in(jobs))


def _print_results(
    history: OutcomeTable | None,
    results: Sequence[TrainingOutcome],
    review: TrainedModel | None,
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    rows = [_facts(result, dry_run) for result in results] + ([review] if review else [])
    cells: list[list[Cell]] = [[row["model"], row["decision"], row["why"]] for row in rows]
    lines: list[str | TextTable] = []
    if history is not None and not len(history):
        lines.append("the database holds no runs of that time yet; slurmsched history import reads those of sacct")
    elif history is not None:
        lines.append(
            f"{count(len(history), 'run')}, ended from {moment(float(history.ended_s.min()))} to "
            f"{moment(float(history.ended_s.max()))}"
        )
    lines.append(TextTable(("MODEL", "DECISION", "WHY"), cells))
    for result in results:
        if result.trained:
            lines.append(_scores(result.trained))
    facts: Training = {"dry_run": dry_run, "runs": 0 if history is None else len(history), "models": rows}
    emit(facts, *lines, as_json=as_json)


def _facts(result: TrainingOutcome, dry_run: bool) -> TrainedModel:
    trained = result.trained
    decision: Decision
    if trained is None:
        decision = "too early" if result.too_early else "failed"
    elif trained.promoted is None:
        decision = "kept"
    else:
        decision = "would be promoted" if dry_run else "promoted"
    return {
        "model": result.kind,
        "decision": decision,
        "why": result.why,
        "scores": {} if trained is None else {name: dict(scores) for name, scores in trained.scores.items()},
        "digest": trained.promoted.digest if trained and trained.promoted else None,
    }


def _scores(trained: Trained) -> TextTable:
    names = list(dict.fromkeys(name for scores in trained.scores.values() for name in scores))
    rows: list[list[Cell]] = [
        [candidate, *(_short(scores.get(name)) for name in names)] for candidate, scores in trained.scores.items()
    ]
    return TextTable((trained.kind.upper(), *(name.replace("_", " ").upper() for name in names)), rows)


def _short(value: float | None) -> Cell:
    return None if value is None else float(f"{value:.4g}")
