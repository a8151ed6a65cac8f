"""The tables of ``slurmsched advice``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..output import Cell, TextTable
from ..time_format import moment, span

BEYOND = ("FAR BEYOND FORECAST", "RUNS", "TIMES", "TYPICALLY", "RAISED")
LINKS = ("GPUS ON A NODE", "RUNS", "GB/S", "AT BEST", "LOST")
SPREAD = ("SPREAD OVER NODES", "GPUS", "TYPE", "RUNS", "S/ITERATION", "SPREAD RUNS", "S/ITERATION", "SPEED")
TYPES = ("BY TYPE OF GPU", "GPUS", "TYPE", "RUNS", "SECONDS", "SPEED")
FRAGMENTED = ("FREE GPUS SPREAD OVER", "JOBS", "GPU-HOURS WAITED")
STRANDED = ("STRANDED BY", "USER", "GPU-HOURS FOR CPUS", "FOR MEMORY")
IDLE = ("HELD WITHOUT A PROCESS", "USER", "ACCOUNT", "GPUS", "SINCE")
DELAYED = ("WAITS FOR THEM", "USER", "GPUS", "START", "START IF FREE")
COLUMNS = ("WHO GAINS", "NAME", "JOBS", "SOONER", "LATER", "CHANGE")

SHEETS: Mapping[str, tuple[tuple[str, ...], Callable[[Mapping[str, Any]], tuple[Cell, ...]]]] = {
    "advice": (COLUMNS, lambda s: (s["kind"], s["name"], s["jobs"], s["sooner"], s["later"], span(s["change_s"]))),
    "overrunners": (
        BEYOND,
        lambda u: (u["user"], u["runs"], round(u["times"]), span(u["length_s"]), f"{u['raised']:.0%}"),
    ),
    "links": (
        LINKS,
        lambda r: (r["gpus"], r["runs"], f"{r['gbps']:.1f}", f"{r['best_gbps']:.1f}", f"{r['lost']:.0%}"),
    ),
    "spread": (
        SPREAD,
        lambda k: (
            *(k["kind"], k["gpus"], k["gpu_type"], k["runs"], f"{k['iteration_s']:.3f}"),
            *(k["spread_runs"], f"{k['spread_iteration_s']:.3f}", f"{k['speed']:.0%}"),
        ),
    ),
    "types": (
        TYPES,
        lambda k: (k["kind"], k["gpus"], k["gpu_type"], k["runs"], f"{k['seconds']:.3g}", f"{k['speed']:.0%}"),
    ),
    "stranded": (
        STRANDED,
        lambda o: (o["account"] or "(none)", o["user"], f"{o['cpu_gpu_hours']:.1f}", f"{o['memory_gpu_hours']:.1f}"),
    ),
    "fragmented": (FRAGMENTED, lambda row: (row["over"], row["jobs"], f"{row['gpu_hours']:.1f}")),
}
"""The columns of each table, and the cells of a row, by its key in the answer and in their order on the page."""


def sheet(name: str, rows: Iterable[Mapping[str, Any]]) -> TextTable:
    """Return the *rows* of an answer, in the order given, as the table of that name."""
    columns, cells = SHEETS[name]
    return TextTable(columns, [cells(row) for row in rows])


def idle_parts(idle: Mapping[str, Any], now_s: float) -> list[str | TextTable]:
    """Return who holds idle GPUs, and who waits for them, as tables; nothing where no GPU is idle."""
    if not idle["holds"]:
        return []
    holds = [(h["job_id"], h["user"], h["account"], h["gpus"], moment(h["since_s"], now_s)) for h in idle["holds"]]
    parts: list[str | TextTable] = [TextTable(IDLE, holds)]
    if idle["delayed"]:
        rows = [
            (d["job_id"], d["user"], d["gpus"], moment(d["start_s"], now_s), moment(d["start_if_free_s"], now_s))
            for d in idle["delayed"]
        ]
        parts.append(TextTable(DELAYED, rows))
    if idle["waiting"]:
        would = "job waits" if idle["waiting"] == 1 else "jobs wait"
        parts.append(f"{idle['waiting']} {would} that would run by now, had these GPUs been free.")
    if idle["trouble"]:
        parts.append(f"Who waits for them is not known anew: {idle['trouble']}.")
    return parts
