"""``slurmsched status``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from ..admin.policy import serving
from ..app import App
from ..output import emit, json_option
from ..time_format import as_of, span


@click.command()
@json_option
@click.pass_obj
def status(app: App, as_json: bool) -> None:
    """Show the state of the daemon.

    Exit status 1 if no daemon answers or its last cycles failed.
    """
    reply = app.answers().query("status")
    now_s = app.clock.now()
    lines = _living(reply, now_s) if reply["source"] == "daemon" else _dead(reply, now_s)
    emit(reply, *lines, as_json=as_json)
    raise SystemExit(1 if reply["source"] != "daemon" or reply["problem"] else 0)


def _living(reply: Mapping[str, Any], now_s: float) -> Iterator[str]:
    why = f", because {reply['why_mode']}" if reply["why_mode"] else ""
    configured = f" (configured: {reply['configured_mode']})" if reply["mode"] != reply["configured_mode"] else ""
    yield f"slurmsched {reply['version']}, pid {reply['pid']}: mode {reply['mode']}{configured}{why}"
    yield f"health: {reply['problem'] or 'fine'}"
    trouble = reply.get("database_trouble")  # absent from daemons of earlier releases
    away = "away, deciding without history" + (f": {trouble}" if trouble else "")
    yield f"database: {'answers' if reply['database_available'] else away}"
    if policy := reply.get("policy"):
        yield f"order: {serving(policy, now_s)}"
    if model := reply.get("model"):
        yield f"forecasts: {model}"
    if degraded := reply.get("degraded"):
        yield degraded
    if reply["last_error"]:
        yield f"last error: {reply['last_error']}"
    if cycle := reply.get("cycle"):
        yield f"last cycle: {cycle['sentence']}"
        phases = ", ".join(f"{phase} {span_s:.3f} s" for phase, span_s in cycle["phases_s"].items())
        yield f"it took: {phases}; one cycle every {span(reply['every_s'])}"
        if cycle["fallbacks"]:
            yield f"doing without: {', '.join(cycle['fallbacks'])}"
        if any(cycle["promises"].values()):
            counts = ", ".join(f"{count} {state}" for state, count in cycle["promises"].items() if count)
            yield f"deadlines of the last 32 days: {counts}"
        yield as_of(cycle["now_s"], cycle["number"], now_s)
    else:
        yield "no cycle has ended yet"


def _dead(reply: Mapping[str, Any], now_s: float) -> Iterator[str]:
    yield "no daemon answers; Slurm decides alone"
    yield f"last cycle on record: {reply['sentence']} (mode {reply['mode']})"
    yield as_of(reply["as_of_s"], reply["cycle"], now_s)
