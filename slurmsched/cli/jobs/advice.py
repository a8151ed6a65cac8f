"""The tables of ``slurmsched advice``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..output import TextTable
from ..time_format import span

BEYOND = ("FAR BEYOND FORECAST", "RUNS", "TIMES", "TYPICALLY", "RAISED")
LINKS = ("GPUS ON A NODE", "RUNS", "GB/S", "AT BEST", "LOST")
SPREAD = ("SPREAD OVER NODES", "GPUS", "TYPE", "RUNS", "S/ITERATION", "SPREAD RUNS", "S/ITERATION", "SPEED")
TYPES = ("BY TYPE OF GPU", "GPUS", "TYPE", "RUNS", "SECONDS", "SPEED")
FRAGMENTED = ("FREE GPUS SPREAD OVER", "JOBS", "GPU-HOURS WAITED")
STRANDED = ("STRANDED BY", "USER", "GPU-HOURS FOR CPUS", "FOR MEMORY")
COLUMNS = ("WHO GAINS", "NAME", "JOBS", "SOONER", "LATER", "CHANGE")


def sheet(shares: Iterable[Mapping[str, Any]]) -> TextTable:
    """Return the shares as rows, greatest gain first."""
    rows = [(s["kind"], s["name"], s["jobs"], s["sooner"], s["later"], span(s["change_s"])) for s in shares]
    return TextTable(COLUMNS, rows)


def beyond_sheet(users: Iterable[Mapping[str, Any]]) -> TextTable:
    """Return the users as rows, in the order given."""
    rows = [(u["user"], u["runs"], round(u["times"]), span(u["length_s"]), f"{u['raised']:.0%}") for u in users]
    return TextTable(BEYOND, rows)


def links_sheet(rows: Iterable[Mapping[str, Any]]) -> TextTable:
    """Return the use of links as rows, by number of GPUs."""
    cells = [(r["gpus"], r["runs"], f"{r['gbps']:.1f}", f"{r['best_gbps']:.1f}", f"{r['lost']:.0%}") for r in rows]
    return TextTable(LINKS, cells)


def spread_sheet(kinds: Iterable[Mapping[str, Any]]) -> TextTable:
    """Return the speeds of kinds of jobs on more nodes than they need as rows, in the order given."""
    cells = [
        (
            *(k["kind"], k["gpus"], k["gpu_type"], k["runs"], f"{k['iteration_s']:.3f}"),
            *(k["spread_runs"], f"{k['spread_iteration_s']:.3f}", f"{k['speed']:.0%}"),
        )
        for k in kinds
    ]
    return TextTable(SPREAD, cells)


def types_sheet(kinds: Iterable[Mapping[str, Any]]) -> TextTable:
    """Return the speeds of kinds of jobs by type of GPU as rows, in the order given."""
    cells = [
        (k["kind"], k["gpus"], k["gpu_type"], k["runs"], f"{k['seconds']:.3g}", f"{k['speed']:.0%}") for k in kinds
    ]
    return TextTable(TYPES, cells)


def fragmented_sheet(rows: Iterable[Mapping[str, Any]]) -> TextTable:
    """Return how much jobs waited for GPUs that were free and did not lie together as rows."""
    return TextTable(FRAGMENTED, [(row["over"], row["jobs"], f"{row['gpu_hours']:.1f}") for row in rows])


def stranded_sheet(owners: Iterable[Mapping[str, Any]]) -> TextTable:
    """Return who left GPUs without CPUs or memory as rows, in the order given."""
    cells = [
        (o["account"] or "(none)", o["user"], f"{o['cpu_gpu_hours']:.1f}", f"{o['memory_gpu_hours']:.1f}")
        for o in owners
    ]
    return TextTable(STRANDED, cells)
