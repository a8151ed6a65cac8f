"""``slurmsched trial``."""

from __future__ import annotations

import getpass
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from ...errors import ConfigError
from ..app import App
from ..failure import NotFound, wrong_usage
from ..output import TextTable, emit, json_option, table_options
from ..sheet_text import text_of
from ..time_format import moment, span

if TYPE_CHECKING:
    from ...cluster.records.trial import Trial
    from ..json_answers import TrialStarted, TrialStopped

HOLDOUT_MOST = 0.1


@click.group()
def trial() -> None:
    """Try the policy in blocks of time with and without it.

    The blocks come in pairs, of each pair one with the policy and one without, in an order drawn at random. In a block
    without the policy jobs run in Slurm's own order and no change is begun; promises, leases and changes that are there
    already are kept. The first part of each block is not counted. A trial ends after its last block, by stop, or where
    jobs of an account wait longer by more than trial.harm_s: then the policy stays off until stop.
    """


@trial.command()
@click.option("--days", type=click.FloatRange(0.05, 365), default=14.0, show_default=True, help="Length of the trial.")
@click.option(
    "--holdout",
    type=click.FloatRange(0, 100 * HOLDOUT_MOST),
    default=0.0,
    metavar="PERCENT",
    help="Share of jobs, 0 to 10, that keep the place of Slurm's own order in blocks with the policy.",
)
@click.option("--seed", type=click.IntRange(0, 2**31 - 1), help="Seed of the order of blocks.  [default: a new one]")
@json_option
@click.pass_obj
def start(app: App, days: float, holdout: float, seed: int | None, as_json: bool) -> None:
    """Start a trial, from the daemon's next cycle on.

    Blocks are trial.block_s long; the first trial.washout_s of each are not counted.
    """
    trial = _planned(app, days, holdout / 100, secrets.randbelow(2**31) if seed is None else seed)
    if not app.writable_store().start_trial(app.cluster_name(), trial):
        raise NotFound("a trial runs already; 'slurmsched trial stop' ends it")
    facts: TrialStarted = {"started_s": trial.started_s, "until_s": trial.until_s, "seed": trial.seed}
    sentence = (
        f"a trial of {trial.blocks} blocks of {span(trial.block_s)} began, until {moment(trial.until_s)}; seed "
        f"{trial.seed}"
    )
    emit(facts, sentence, as_json=as_json)


@trial.command()
@table_options
@click.pass_obj
def status(app: App, as_json: bool) -> None:
    """Show the latest trial: its present block, and the effect on waits by account."""
    from ...report.trial_sheets import trial_sheets, trial_title, trial_words

    answer: Mapping[str, Any] = app.answers().query("trial")
    parts: list[str | TextTable] = ["there was no trial yet"]
    if answer["trials"]:
        latest = answer["trials"][0]
        parts = [trial_title(latest), trial_words(latest)]
        parts += [text_of(sheet) for sheet in trial_sheets([latest]) if sheet.rows]
    emit(answer, *parts, as_json=as_json)


@trial.command()
@json_option
@click.pass_obj
def stop(app: App, as_json: bool) -> None:
    """End the trial, or the time without the policy after one that harmed: the policy goes on in the next cycle."""
    store, name = app.writable_store(), app.cluster_name()
    latest = next(iter(store.trials(name, 1)), None)
    now_s, by = app.clock.now(), f"by {getpass.getuser()}"
    if latest is None or not store.end_trial(name, latest.started_s, now_s, "stopped", by):
        raise NotFound("no trial runs")
    facts: TrialStopped = {"started_s": latest.started_s}
    emit(facts, "the trial has ended: the policy is in force from the daemon's next cycle on", as_json=as_json)


def _planned(app: App, days: float, holdout: float, seed: int) -> Trial:
    """Return the trial that starts now; ConfigError where the settings allow none."""
    from ...cluster.records.trial import LEAST_BLOCKS, Trial

    settings = app.settings()
    own = settings.trial
    if settings.daemon.mode != "act":
        raise ConfigError(
            f"daemon.mode = {settings.daemon.mode!r}: a trial compares blocks in which the daemon acts with others, "
            'so it needs daemon.mode = "act"'
        )
    if own.washout_s > own.block_s / 2:
        raise ConfigError(f"trial.washout_s = {own.washout_s:g}: accepted is at most half of trial.block_s")
    with wrong_usage():
        blocks = 2 * round(days * 86_400.0 / own.block_s / 2)
        if blocks < LEAST_BLOCKS:
            least = LEAST_BLOCKS * own.block_s / 86_400.0
            raise ConfigError(f"--days {days:g}: three pairs of blocks of {span(own.block_s)} need {least:.3g} days")
    now_s, by = app.clock.now(), getpass.getuser()
    return Trial(now_s, by, seed, own.block_s, own.washout_s, blocks, own.harm_s, holdout)
