"""``slurmsched demo``."""

from __future__ import annotations

import os
import signal
from dataclasses import astuple
from textwrap import shorten
from types import FrameType
from typing import TYPE_CHECKING

import click

from ...cluster.text.plural import count
from ..output import TextTable, emit, json_option

if TYPE_CHECKING:
    from ...demo import Shown

FIGURES = ("average JCT", "median JCT", "p90 JCT", "makespan")
SIMULATED = "SIMULATED: no Slurm ran. slurmctld is a model, time is virtual; slurmsched's cycle is the daemon's own."


@click.command()
@click.option("--quick", is_flag=True, help="A burst of 28 short jobs: about a minute, and figures that say little.")
@click.option("--simulated", is_flag=True, help="On a model of Slurm in virtual time: no root, no Slurm, seconds.")
@click.option("--or-simulated", is_flag=True, help="As --simulated, but only where no private Slurm can run; says so.")
@json_option
def demo(quick: bool, simulated: bool, or_simulated: bool, as_json: bool) -> None:
    """Show the gains of slurmsched on a private Slurm.

    Runs a burst of jobs cut from a real trace under stock Slurm and again under slurmsched, which has learned only from
    an earlier burst. Takes about four minutes and needs root. Progress goes to standard error.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupted)
    # A burst takes only seconds to simulate uncompiled; compiling the simulator's loops would take a minute.
    os.environ.setdefault("NUMBA_DISABLE_JIT", "1")
    shown = _shown(quick, simulated, or_simulated)
    facts = shown.to_json()
    rows = zip(FIGURES, astuple(shown.stock), astuple(shown.slurmsched), facts["ratio"].values(), strict=True)
    table = TextTable(
        ("", "STOCK SLURM", "SLURMSCHED", "RATIO"),
        [(name, f"{stock:.1f} s", f"{ours:.1f} s", f"{ratio:.2f}") for name, stock, ours, ratio in rows],
    )
    summary = (
        f"{count(shown.jobs, 'job')} on 16 GPUs, {count(shown.history_runs, 'earlier run')} known; {facts['data']}"
    )
    answers = [
        line
        for command, answer in (("why", shown.why), ("explain", shown.explain))
        for line in ("", f"$ slurmsched {command} {shown.job_id}", *answer.splitlines())
    ]
    label = [SIMULATED] if shown.simulated else []
    emit(facts, *label, summary, table, *answers, as_json=as_json)


def _shown(quick: bool, simulated: bool, or_simulated: bool) -> Shown:
    from ...demo import FULL, QUICK, Demo, NoLab, SimulatedDemo

    size = QUICK if quick else FULL
    if not simulated:
        try:
            return Demo(size, _print_line).run()
        except NoLab as error:
            if not or_simulated:
                raise
            _print_line(
                "No private Slurm can be had here, so this one is simulated: "
                + shorten(str(error), 250, placeholder=" ...")
            )
    return SimulatedDemo(size, _print_line).run()


def _print_line(line: str) -> None:
    click.echo(line, err=True)


def _interrupted(number: int, frame: FrameType | None) -> None:
    """Exit as Ctrl-C does, after cleaning up."""
    raise KeyboardInterrupt
