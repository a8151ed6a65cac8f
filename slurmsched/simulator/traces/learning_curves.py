"""Files of learning curves: one row for each epoch of each run of a training."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from . import cells
from .delimited_text import DelimitedRecords
from .file import TraceFile


@dataclass(frozen=True, eq=False)
class MeasuredCurve:
    """The course of one run of a training."""

    epoch: IntArray  #: rising
    accuracy: FloatArray  #: 0..1
    loss: FloatArray  #: NaN where the file has none
    calibrates: bool  #: it serves to measure how far predictions are off


def read_curves(path: str | Path) -> list[MeasuredCurve]:
    """Return the curves of a csv file with the columns run, epoch, accuracy, and perhaps loss and half.

    Runs of half 1 calibrate; without that column, the first half of the runs does. TraceError names file, line and
    column of a bad row.
    """
    file = TraceFile(path)
    records = DelimitedRecords(file)
    needed = {"run": cells.text, "epoch": cells.whole, "accuracy": cells.number}
    read = records.read(needed, {"loss": cells.number, "half": cells.whole})
    runs, epoch, accuracy = read["run"], read["epoch"], read["accuracy"]
    for row in np.flatnonzero(~((accuracy >= 0) & (accuracy <= 1))).tolist():
        raise records.fail(row, "accuracy", f"{accuracy[row]:g} is no accuracy: accepted are numbers from 0 to 1")
    loss = read.get("loss", np.full(len(epoch), np.nan))
    curves = []
    codes = list(dict.fromkeys(runs.codes.tolist()))
    for number, code in enumerate(codes):
        rows = np.flatnonzero(runs.codes == code)
        for row in rows[1:][np.diff(epoch[rows]) <= 0].tolist():
            raise records.fail(row, "epoch", f"epoch {epoch[row]} does not follow the epoch before it in its run")
        first_half = bool(read["half"][rows[0]] == 1) if "half" in read else number < len(codes) / 2
        curves.append(MeasuredCurve(epoch[rows], accuracy[rows], loss[rows], first_half))
    if all(curve.calibrates for curve in curves) or not any(curve.calibrates for curve in curves):
        raise file.at(1, "runs are needed in both halves: some to calibrate by, others to measure on", "half")
    return curves
