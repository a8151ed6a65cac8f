"""A comparison of policies: as a table, as JSON, as CSV, as a page."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ...simulator.report.gain import Gain, gain
from ...simulator.report.harm import Harm, SimulatedPolicy, baseline_of, harm
from ..output import Cell, TextTable
from ..time_format import span

if TYPE_CHECKING:
    from ...simulator.case import Case
    from ...simulator.report.metrics import Summary
    from ...simulator.sweep import Cell as RunCell
    from ...simulator.sweep import CellResult

COLUMNS = (
    "POLICY",
    "SELECTION",
    "MEAN JCT",
    "MEDIAN",
    "P90",
    "P99",
    "MEAN QUEUE",
    "RESPONSE",
    "MAKESPAN",
    "GPUS BUSY",
    "PREEMPTED",
)
ORDER = (
    "TRACE",
    "LOAD",
    "SEED",
    "POLICY",
    "GAIN",
    "MEAN JCT",
    "MEAN QUEUE",
    "RESPONSE",
    "USERS WORSE",
    "P90",
    "MAKESPAN",
    "GPUS BUSY",
)


@dataclass(frozen=True)
class ComparisonRow:
    """The figures of one run beside the baseline of its case."""

    case: Case
    summary: Summary
    harm: Harm | None  #: None for the baseline itself, and so is the next
    gain: Gain | None

    def facts(self) -> SimulatedPolicy:
        """Return every figure."""
        case = self.case
        return SimulatedPolicy(
            **vars(self.summary),
            trace=case.source.name,
            load=case.load,
            seed=case.seed,
            harm=self.harm,
            gain=self.gain,
        )


def compared(
    cells: Sequence[RunCell], runs: Iterable[tuple[int, CellResult]], whole: Callable[[Sequence[CellResult]], None]
) -> list[ComparisonRow]:
    """Return a row for each of *cells*, given its run and index; *whole* gets the runs of each case together.

    Replays are freed as soon as all of their case are complete.
    """
    places: dict[Case, list[int]] = {}
    for place, cell in enumerate(cells):
        places.setdefault(cell.case, []).append(place)
    done: dict[int, CellResult] = {}
    rows: dict[int, ComparisonRow] = {}
    for place, run in runs:
        done[place] = run
        group = places[cells[place].case]
        if all(other in done for other in group):
            together = [done.pop(other) for other in group]
            whole(together)
            rows.update(zip(group, _beside_baseline(together), strict=True))
    return [rows[place] for place in range(len(cells))]


def _beside_baseline(runs: Sequence[CellResult]) -> Iterator[ComparisonRow]:
    baseline = runs[baseline_of([run.cell.setup for run in runs])]
    for run in runs:
        if run is baseline:
            yield ComparisonRow(run.cell.case, run.summary, None, None)
            continue
        worse = harm(run.replay, baseline.replay)
        yield ComparisonRow(run.cell.case, run.summary, worse, gain(run.replay, baseline.replay))


NAMED = 5  #: jobs that a sentence names


def unfinished_notes(rows: Sequence[ComparisonRow]) -> Iterator[str]:
    """Yield, for each row with jobs that did not end in the replay, which these are."""
    for row in rows:
        ids = row.summary.unfinished
        if ids:
            listed = ", ".join(map(str, ids[:NAMED])) + (f" and {len(ids) - NAMED} more" if len(ids) > NAMED else "")
            yield (
                f"{row.summary.policy}: {len(ids)} of {row.summary.jobs} jobs did not end in the replay ({listed}): "
                "no mean of its times is known"
            )


def sheet(rows: Sequence[ComparisonRow]) -> TextTable:
    """Return the table for people; trace, load and seed only where there are several."""
    several: dict[str, Sequence[Cell]] = {
        "TRACE": [row.case.source.name for row in rows],
        "LOAD": [row.case.load for row in rows],
        "SEED": [row.case.seed for row in rows],
    }
    extra = {name: cells for name, cells in several.items() if len(set(cells)) > 1}
    after: dict[str, Sequence[Cell]] = {}
    if any(row.gain is not None for row in rows):
        after["GAIN"] = [None if row.gain is None else str(row.gain) for row in rows]
    if any(row.harm is not None and row.harm.users is not None for row in rows):
        after["USERS WORSE"] = [_worse(row.harm) for row in rows]
    lines = [
        [*(cells[number] for cells in extra.values()), *_figures(row), *(cells[number] for cells in after.values())]
        for number, row in enumerate(rows)
    ]
    columns = (*extra, *COLUMNS, *after)
    return TextTable(columns, lines, [name for name in ORDER if name in columns], ("TRACE",))


def as_csv(rows: Iterable[ComparisonRow]) -> str:
    """Return one line per run under a header; of harm only the number of jobs that are worse off."""
    lines = [dict(_flat("", _counted(asdict(row.facts())))) for row in rows]
    names = list(dict.fromkeys(name for line in lines for name in line))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def _figures(row: ComparisonRow) -> list[Cell]:
    summary = row.summary
    return [
        summary.policy,
        summary.selection,
        *(span(value) for value in (summary.jct_s.mean, summary.jct_s.median, summary.jct_s.p90, summary.jct_s.p99)),
        span(summary.queue_s.mean),
        span(summary.response_s.mean),
        span(summary.makespan_s),
        f"{100 * summary.utilisation:.1f} %",
        summary.preemptions,
    ]


def _worse(harm: Harm | None) -> str | None:
    return None if harm is None or harm.users is None else f"{harm.users.worse} of {harm.users.count}"


def _counted(facts: dict[str, Any]) -> dict[str, Any]:
    harm = facts.pop("harm") or {}
    who = {name: harm.get(name) or {} for name in ("users", "virtual_clusters")}
    facts["unfinished"] = len(facts["unfinished"])
    return facts | {f"{name}_worse": changes.get("worse") for name, changes in who.items()}


def _flat(prefix: str, facts: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in facts.items():
        if isinstance(value, dict):
            yield from _flat(f"{prefix}{name}.", value)
        else:
            yield f"{prefix}{name}", value
