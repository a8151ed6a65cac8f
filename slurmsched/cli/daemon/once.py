"""``slurmsched once``."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, fields
from typing import TYPE_CHECKING

import click

from ...cluster.text.plural import count
from ..app import App
from ..failure import Failed
from ..jobs.advice import sheet
from ..output import Cell, TextTable, emit, table_options

if TYPE_CHECKING:
    from ...cluster.actions import Action
    from ...cycle import CycleReport
    from ...explain.impact import GroupImpact
    from ..json_answers import OneCycle
    from .build import Daemon

SHOWN = 20


@click.command()
@click.option(
    "--dry-run", is_flag=True, help="Write nothing, neither to Slurm nor to the database; runs beside a daemon."
)
@table_options
@click.pass_obj
def once(app: App, dry_run: bool, as_json: bool) -> None:
    """Run one cycle and report the result."""
    from ...explain.impact import advice
    from .build import build

    daemon = build(app, dry=dry_run)
    try:
        report = daemon.dry_run(app.clock.now()) if dry_run else _turn(daemon)
    finally:
        daemon.close()
    shares = advice(report.view, report.plan)
    emit(_facts(report, shares), *_parts(report, shares), as_json=as_json)
    sys.exit(1 if report.refused else 0)


def _turn(daemon: Daemon) -> CycleReport:
    turn = daemon.service.once()
    if turn.report is None:
        raise Failed(turn.error)
    return turn.report


def _facts(report: CycleReport, shares: tuple[GroupImpact, ...]) -> OneCycle:
    return {
        "number": report.number,
        "now_s": report.now_s,
        "mode": report.mode,
        "sentence": report.sentence,
        "pending": report.pending,
        "running": report.running,
        "ranked": report.ranked,
        "starving": report.starving,
        "wanted": [{"kind": action.stored, **asdict(action)} for action in report.plan.actions],
        "not_allowed": dict(Counter(refusal.rule for refusal in report.plan.refusals)),
        "done": report.actions,
        "refused": report.refused,
        "deferred": report.deferred,
        "fallbacks": list(report.fallbacks),
        "phases_s": report.phases_s,
        "advice": shares,
    }


def _parts(report: CycleReport, shares: tuple[GroupImpact, ...]) -> Iterator[str | TextTable]:
    yield report.sentence
    actions, refusals = report.plan.actions, report.plan.refusals
    if actions:
        yield TextTable(("ACTION", "JOB", "VALUE"), [_cells(action) for action in actions[:SHOWN]])
    if len(actions) > SHOWN:
        yield f"... and {len(actions) - SHOWN} more"
    for rule, times in Counter(refusal.rule for refusal in refusals).most_common():
        yield f"not allowed, {count(times, 'time')}: {rule}"
    if report.mode != "act" and actions:
        yield sheet("advice", (asdict(share) for share in shares))
    yield "took " + ", ".join(f"{phase} {took_s:.3f} s" for phase, took_s in report.phases_s.items())


def _cells(action: Action) -> list[Cell]:
    rest = {f.name: getattr(action, f.name) for f in fields(action)}
    job: int | None = rest.pop("job_id", None)
    values = [action.value] if job is None else list(rest.values())
    return [action.stored, job, *(values or [None])]
