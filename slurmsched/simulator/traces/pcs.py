"""The traces of PCS: work in seconds on one GPU, and the most GPUs a job can use.

Jobs are read as rigid: with all their GPUs, and the runtime on those. The speed-up comes from
``pcs_speedups.json`` beside the trace; without that file it is taken as linear.
"""

from __future__ import annotations

import json

import numpy as np

from ...cluster.columns import FloatArray, IntArray, Labels
from . import cells
from .cleaning import Raw
from .delimited_text import DelimitedRecords
from .file import TraceFile
from .format import Format, with_columns
from .trace import TraceError

SPEEDUPS = "pcs_speedups.json"
_ACCEPTED = 'accepted is {"speedup": {"Model": [1.0, 1.8, ...], ...}}, the speed on 1, 2, ... GPUs over that on one'


def _read(file: TraceFile) -> Raw:
    sheet = DelimitedRecords(file)
    read = sheet.read(
        {
            "app_id": cells.whole,
            "submit_time": cells.number,
            "service": cells.number,
            "num_jobs": cells.whole,
            "model_name": cells.text,
        }
    )
    model, gpus = read["model_name"], read["num_jobs"]
    curves = _curves(file)
    speed = np.maximum(gpus, 1) if curves is None else _speed(sheet, curves, model, gpus)
    raw = Raw(
        {
            "job_id": read["app_id"],
            "submit_s": read["submit_time"],
            "runtime_s": read["service"] / speed,
            "gpus": gpus,
            "name": model,
        }
    )
    source = f"no {SPEEDUPS} beside the trace: taken as linear" if curves is None else f"from {SPEEDUPS}"
    raw.note("speed-up", len(raw), f"{{jobs}} given all the GPUs they want, with a speed-up {source}")
    return raw


def _curves(file: TraceFile) -> dict[str, FloatArray] | None:
    """Read the speed-ups of each model; None where there is no such file beside the trace."""
    path = file.path.parent / SPEEDUPS
    try:
        text = path.read_text()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise TraceError(f"reading the speed-ups {path}: {error}") from error
    try:
        curves = {str(model): np.array(curve, dtype=np.float64) for model, curve in json.loads(text)["speedup"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TraceError(f"reading the speed-ups {path}: {_ACCEPTED}") from error
    if not all(curve.ndim == 1 and len(curve) and np.all(curve > 0) for curve in curves.values()):
        raise TraceError(f"reading the speed-ups {path}: {_ACCEPTED}")
    return curves


def _speed(sheet: DelimitedRecords, curves: dict[str, FloatArray], model: Labels, gpus: IntArray) -> FloatArray:
    """Return the speed-up of each job on its GPUs; that of the last known count is used for more."""
    speed = np.ones(len(gpus))
    for code, name in enumerate(model.names):
        rows = model.codes == code
        if name not in curves:
            problem = f"{name!r} is no model of {SPEEDUPS}: accepted are {', '.join(sorted(curves))}"
            raise sheet.fail(int(np.flatnonzero(rows)[0]), "model_name", problem)
        curve = curves[name]
        speed[rows] = curve[np.clip(gpus[rows], 1, len(curve)) - 1]
    return speed


PCS = Format(
    "pcs",
    "a csv file with the columns app_id, submit_time, service, num_jobs, model_name",
    with_columns("app_id", "submit_time", "service", "num_jobs", "model_name"),
    _read,
)
