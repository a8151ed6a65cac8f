"""The workloads of MLFS: training jobs as gangs of tasks, with deadlines, required accuracies and learning curves."""

from __future__ import annotations

import math

import numpy as np

from ...cluster.text.task_graph import TaskGraph
from . import cells
from .cleaning import Raw
from .delimited_text import DelimitedRecords
from .file import TraceFile
from .format import Format, with_columns

_NAMED = {
    "edge_mb": "edge_b",
    "ps_mb": "average_b",
    "cpus_per_gpu": "gpu_cpus",
    "told_s": "estimate_s",
    "site_s": "history_s",
    "accuracy_final": "accuracy",
}
_SAME = ("submit_s", "runtime_s", "urgency", "deadline_s", "converges_at", "loss_rate", "accuracy_required")
_MB_B = 1e6


def _read(file: TraceFile) -> Raw:
    numbers = dict.fromkeys((*_SAME, *_NAMED, "iteration_s"), cells.number)
    read = DelimitedRecords(file).read(
        {"job_id": cells.whole, "gpus": cells.whole, "vc": cells.text, "model": cells.text, **numbers}
    )
    kinds = list(zip(read["model"], read["gpus"].tolist(), strict=True))
    return Raw(
        {
            **{name: read[name] for name in ("job_id", "gpus", *_SAME)},
            **{ours: read[theirs] * (_MB_B if theirs.endswith("_mb") else 1.0) for theirs, ours in _NAMED.items()},
            "iterations": read["runtime_s"] / read["iteration_s"],
            "partition": read["vc"],
            "name": read["model"],
            "work": read["model"],
            "graph": [str(graph_of(model, gpus)) for model, gpus in kinds],
            "best_effort": np.isinf(read["deadline_s"]),
        }
    )


def graph_of(model: str, gpus: int) -> TaskGraph:
    """Return the graph of a model on *gpus* GPUs: resnet and lstm in layers, svm as replicas, the others as a chain."""
    if model == "svm":
        return TaskGraph("replicas", 1, gpus)
    if model not in ("resnet", "lstm"):
        return TaskGraph("chain", gpus, 1)
    width = round(math.sqrt(gpus))
    return TaskGraph("layers", -(-gpus // width), width)


MLFS = Format(
    "mlfs",
    "a csv file with the columns job_id, submit_s, runtime_s, gpus, vc, model, iteration_s, cpus_per_gpu, edge_mb, "
    "ps_mb, urgency, deadline_s, told_s, site_s, converges_at, loss_rate, accuracy_final, accuracy_required",
    with_columns("job_id", "model", "gpus", "runtime_s", "edge_mb", "told_s", "site_s", "accuracy_required"),
    _read,
)
