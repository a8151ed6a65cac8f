"""``slurmsched simulate``."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from .failure import Failed
from .output import Sheet, emit, json_option
from .spans import span

if TYPE_CHECKING:
    from ..simulator.experiment import Setup
    from ..simulator.fleet import Fleet
    from ..simulator.metrics import Summary
    from ..simulator.traces import Trace

COLUMNS = (
    "POLICY",
    "SELECTION",
    "MEAN JCT",
    "MEDIAN",
    "P90",
    "P99",
    "MEAN QUEUE",
    "MAKESPAN",
    "GPUS BUSY",
    "PREEMPTED",
)
DEFAULT_POLICIES = ("fifo", "sjf", "qssf", "srtf")


@click.command()
@click.argument("trace", type=click.Path(exists=True, dir_okay=False))
@click.option("--nodes", type=click.IntRange(1, 100_000), required=True, help="How many nodes.")
@click.option("--gpus-per-node", type=click.IntRange(1, 64), default=8, show_default=True, help="GPUs of each node.")
@click.option(
    "--policy", "policies", multiple=True, help="An ordering; may be given again. Default: fifo sjf qssf srtf."
)
@click.option(
    "--selection",
    help="strict: nothing passes a job that does not fit; backfill: whatever fits; easy, conservative: what delays no "
    "reservation; preemptive: the best jobs run. Default: what belongs to the ordering.",
)
@click.option("--placement", default="consolidate", show_default=True, help="pool, first-free or consolidate.")
@click.option(
    "--forecast", default="exact", show_default=True, help="What orderings know: exact runtimes, or the limit."
)
@click.option("--restart-cost", "restart_s", type=click.FloatRange(0), default=0.0, help="Seconds a preemption costs.")
@click.option(
    "--beat", "beat_s", type=click.FloatRange(0), default=0.0, help="Seconds between decisions; 0: at each event."
)
@click.option("--jobs", "taken", metavar="A:B", help="Only these jobs, in order of submission from 0, B left out.")
@click.option("--scale-load", type=float, default=1.0, help="Let jobs arrive so many times as fast.")
@click.option("--format", "form", help="The trace's format, where its first lines do not tell.")
@click.option("--check", is_flag=True, help="Verify that the result was possible at all.")
@click.option("--csv", "as_csv", is_flag=True, help="Print one CSV line per policy.")
@json_option
def simulate(
    trace: str,
    nodes: int,
    gpus_per_node: int,
    policies: tuple[str, ...],
    taken: str | None,
    scale_load: float,
    form: str | None,
    check: bool,
    as_csv: bool,
    as_json: bool,
    **parts: Any,
) -> None:
    """Replay TRACE under one or more policies and compare them.

    The plan of each decision happens as it is, at every arrival and end; cleaning of the trace is listed.
    """
    from ..simulator.experiment import Setup
    from ..simulator.fleet import Fleet
    from ..simulator.traces import read

    loaded = read(trace, form)
    loaded = loaded.scaled(scale_load) if taken is None else loaded.jobs(taken).scaled(scale_load)
    setups = [Setup.of(name, **parts) for name in policies or DEFAULT_POLICIES]
    cluster = Fleet.of(nodes, gpus_per_node)
    summaries = [_run(loaded, cluster, setup, check) for setup in setups]
    if as_csv:
        click.echo(_csv(summaries), nl=False)
        return
    notes = [str(note) for note in loaded.notes]
    facts = {
        "trace": {"file": trace, "format": loaded.format, "jobs": len(loaded), "notes": notes},
        "nodes": nodes,
        "gpus_per_node": gpus_per_node,
        "policies": [asdict(row) for row in summaries],
    }
    head = (
        f"{len(loaded)} jobs ({loaded.format}) on {nodes} nodes of {gpus_per_node} GPUs, {parts['placement']} placement"
    )
    emit(facts, head, *(f"note: {note}" for note in notes), Sheet(COLUMNS, list(map(_row, summaries))), as_json=as_json)


def _run(trace: Trace, cluster: Fleet, setup: Setup, check: bool) -> Summary:
    from ..simulator.experiment import simulate as replayed
    from ..simulator.metrics import summary, violations

    replay = replayed(trace.workload, cluster, setup)
    if check and (found := violations(replay)):
        raise Failed(f"the replay under {setup.ordering.name} cannot have happened: {'; '.join(found)}")
    return summary(replay)


def _row(row: Summary) -> tuple[str | int | float, ...]:
    return (
        row.policy,
        row.selection,
        *(span(value) for value in (row.jct_s.mean, row.jct_s.median, row.jct_s.p90, row.jct_s.p99)),
        span(row.queue_s.mean),
        span(row.makespan_s),
        f"{100 * row.utilisation:.1f} %",
        row.preemptions,
    )


def _csv(summaries: list[Summary]) -> str:
    rows = [dict(_flat("", asdict(row))) for row in summaries]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _flat(prefix: str, facts: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in facts.items():
        if isinstance(value, dict):
            yield from _flat(f"{prefix}{name}.", value)
        else:
            yield f"{prefix}{name}", value
