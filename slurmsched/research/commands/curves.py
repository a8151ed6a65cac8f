"""``slurmsched models curves``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from ...cli.output import Cell, TextTable, emit, table_options

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.argument("path", metavar="FILE", type=FILE)
@table_options
def curves(path: Path, as_json: bool) -> None:
    """Measure on the learning curves of FILE what early ends save and lose, and how well curves are predicted.

    FILE is csv, plain or gzip, with the columns run, epoch and accuracy, and perhaps loss and half: runs of half 1
    calibrate the intervals, and all figures are of the others.
    """
    from ...simulator.traces.learning_curves import read_curves
    from ..early_stopping import study_curves

    study = study_curves(read_curves(path))
    ends: list[list[Cell]] = [
        [one.rule, f"{one.saved:.1%}", f"{100 * one.lost_mean:.2f}", f"{one.lost_over_1pp:.1%}"] for one in study.rules
    ]
    seen: list[list[Cell]] = [
        [f"{one.seen:.0%}", f"{100 * one.error:.1f}", f"{one.covers_90:.0%}", f"{100 * one.half_width:.1f}"]
        for one in study.forecast
    ]
    emit(
        asdict(study),
        f"{path}: {study.curves - study.calibrating} curves, and {study.calibrating} to calibrate by",
        TextTable(("STOP", "SAVED", "POINTS LOST", "LOSE OVER 1 POINT"), ends),
        TextTable(("SEEN", "POINTS OFF", "IN THE 90 % INTERVAL", "HALF WIDTH"), seen),
        as_json=as_json,
    )
