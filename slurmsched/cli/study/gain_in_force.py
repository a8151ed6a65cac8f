"""The gain of a site's settings, in a few sentences: the replay of ``simulate --from-db`` on its latest jobs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from ...errors import SlurmschedError
from ..app import App
from ..time_format import span
from .simulate_options import SimulateOptions

if TYPE_CHECKING:
    from ...daemon.api.questions.advice import SettingsGain, SettingsGainRow
    from ...simulator.report.gain import Gain

MOST_S = 30 * 86_400.0
JOBS = 500
"""The latest runs that are replayed by default, within MOST_S."""


def gain_in_force(app: App, span_s: float | None = None) -> SettingsGain:
    """Replay the last *span_s* of the database under the settings, on all of Slurm's nodes; by default its latest jobs.

    Where that cannot be, the answer says why.
    """
    from .comparison import unfinished_notes
    from .replays import Replays

    try:
        cluster = app.cluster().facts().cluster
        span_s = _latest_s(app, cluster) if span_s is None else span_s
        replays = Replays.of(app, SimulateOptions(from_db_s=span_s, cluster_name=cluster))
        rows = replays.rows()
    except (SlurmschedError, click.ClickException) as error:
        why = error.format_message() if isinstance(error, click.ClickException) else str(error)
        return {"jobs": 0, "span_s": span_s or MOST_S, "assumed": [], "rows": [], "why_none": why}
    return {
        "jobs": len(replays.cases[0].trace()),
        "span_s": span_s,
        "assumed": [*unfinished_notes(rows), *replays.assumed],
        "rows": [
            _row(row.summary.policy, meaning, row.gain)
            for row, meaning in zip(rows, replays.meanings, strict=True)
            if row.gain is not None and not math.isnan(row.gain.ratio)
        ],
        "why_none": "",
    }


def headline(gain: SettingsGain) -> Iterator[str]:
    """Yield what the settings would gain, in sentences; what is assumed comes first."""
    yield from gain["assumed"]
    if gain["why_none"]:
        yield f"the gain of the settings is not known: {gain['why_none']}"
        return
    for row in gain["rows"]:
        sure = "" if row["low"] > 1 or row["high"] < 1 else ", no sure gain"
        yield f"{row['policy']}: {row['ratio']:.2f}x ({row['low']:.2f} to {row['high']:.2f}){sure}: {row['meaning']}"
    replayed = f"the last {span(gain['span_s'])}, {gain['jobs']} jobs"
    yield f"by a replay of {replayed}: the mean JCT under Slurm alone over that of each"


def _row(policy: str, meaning: str, gain: Gain) -> SettingsGainRow:
    return {"policy": policy, "meaning": meaning, "ratio": gain.ratio, "low": gain.low, "high": gain.high}


def _latest_s(app: App, cluster: str) -> float:
    """Return how far back the JOBS latest runs go."""
    now_s = app.clock.now()
    ended_s = app.store().history(cluster, now_s - MOST_S, now_s).ended_s
    return MOST_S if len(ended_s) <= JOBS else now_s - float(ended_s[-JOBS])
