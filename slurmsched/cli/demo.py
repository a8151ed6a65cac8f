"""``slurmsched demo``."""

from __future__ import annotations

import signal
from dataclasses import astuple
from types import FrameType

import click

from .output import Sheet, emit, json_option

FIGURES = ("average JCT", "median JCT", "p90 JCT", "makespan")


@click.command()
@click.option("--quick", is_flag=True, help="A burst of 28 short jobs: about a minute, and figures that say little.")
@json_option
def demo(quick: bool, as_json: bool) -> None:
    """Show on a private Slurm what slurmsched gains.

    Runs a burst of jobs cut from a real trace under stock Slurm and again under slurmsched, which knows only an earlier
    burst. Takes about four minutes and needs root. Progress goes to standard error.
    """
    from ..demo import FULL, QUICK, Demo

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupted)
    shown = Demo(QUICK if quick else FULL, lambda line: click.echo(line, err=True)).run()
    facts = shown.to_json()
    rows = zip(FIGURES, astuple(shown.stock), astuple(shown.slurmsched), facts["ratio"].values(), strict=True)
    table = Sheet(
        ("", "STOCK SLURM", "SLURMSCHED", "RATIO"),
        [(name, f"{stock:.1f} s", f"{ours:.1f} s", f"{ratio:.2f}") for name, stock, ours, ratio in rows],
    )
    told = f"{shown.jobs} jobs on 16 GPUs, {shown.history_runs} earlier runs known; {facts['data']}"
    answers = [
        line
        for command, answer in (("why", shown.why), ("explain", shown.explain))
        for line in ("", f"$ slurmsched {command} {shown.asked}", *answer.splitlines())
    ]
    emit(facts, told, table, *answers, as_json=as_json)


def _interrupted(number: int, frame: FrameType | None) -> None:
    """End as Ctrl-C does, with everything taken down."""
    raise KeyboardInterrupt
