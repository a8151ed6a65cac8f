"""``slurmsched status``."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any

import click

from ..admin.policy import serving
from ..app import App
from ..output import emit, json_option
from ..time_format import as_of, span

FIRST_CYCLE_S, AGAIN_S = 10.0, 0.5

SHORT_S = 0.001
"""Parts of a decision that took less are not shown."""


@click.command()
@json_option
@click.pass_obj
def status(app: App, as_json: bool) -> None:
    """Show the state of the daemon.

    Exit status 1 if no daemon answers or its last cycles failed. Right after its start, waits for its first cycle.
    """
    reply = _after_first_cycle(app)
    now_s = app.clock.now()
    lines = _living(reply, now_s) if reply["source"] == "daemon" else _dead(reply, now_s)
    emit(reply, *lines, as_json=as_json)
    raise SystemExit(1 if reply["source"] != "daemon" or reply["problem"] else 0)


def _after_first_cycle(app: App) -> dict[str, Any]:
    """Return the daemon's state; while its first cycle is under way, ask again for FIRST_CYCLE_S at most."""
    until_s = app.clock.monotonic() + FIRST_CYCLE_S
    while True:
        reply = app.answers().query("status")
        begun = reply["source"] != "daemon" or reply.get("cycle") or reply.get("last_error")
        if begun or app.clock.monotonic() >= until_s:
            return reply
        app.clock.wait(AGAIN_S, threading.Event())


def _living(reply: Mapping[str, Any], now_s: float) -> Iterator[str]:
    why = f", because {reply['why_mode']}" if reply["why_mode"] else ""
    configured = f" (configured: {reply['configured_mode']})" if reply["mode"] != reply["configured_mode"] else ""
    yield f"slurmsched {reply['version']}, pid {reply['pid']}: mode {reply['mode']}{configured}{why}"
    yield f"health: {reply['problem'] or 'fine'}"
    trouble = reply["database_trouble"]
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
        yield from _parts_of_decision(cycle)
        if cycle["fallbacks"]:
            yield f"doing without: {', '.join(cycle['fallbacks'])}"
        if any(cycle["promises"].values()):
            counts = ", ".join(f"{count} {state}" for state, count in cycle["promises"].items() if count)
            yield f"deadlines of the last 32 days: {counts}"
        yield as_of(cycle["now_s"], cycle["number"], now_s)
    else:
        yield "no cycle has ended yet"


def _parts_of_decision(cycle: Mapping[str, Any]) -> Iterator[str]:
    """Say which parts of the decision took the time, the longest first, and which powers it was made without."""
    took_s = {part: took_s for part, took_s in cycle.get("decided_s", {}).items() if took_s >= SHORT_S}
    if took_s:
        longest = sorted(took_s, key=lambda part: (-took_s[part], part))
        yield "deciding took, of the processor: " + ", ".join(f"{part} {took_s[part]:.3f} s" for part in longest)
    if waiting := cycle.get("waiting"):
        yield f"decided without {' and '.join(waiting)}: what took long waits its turn"


def _dead(reply: Mapping[str, Any], now_s: float) -> Iterator[str]:
    yield "no daemon answers; Slurm decides alone"
    yield f"last cycle on record: {reply['sentence']} (mode {reply['mode']})"
    yield as_of(reply["as_of_s"], reply["cycle"], now_s)
