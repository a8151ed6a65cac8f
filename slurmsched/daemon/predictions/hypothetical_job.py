"""The start and finish of a hypothetical job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...clock import local_zone
from ...cluster.forecast import Forecast
from ...cluster.jobs import JobTable
from ...cluster.sbatch_probe import probe
from ...cluster.state import View
from ...cluster.text.sbatch import not_counted, read_options
from ...decide.explain.eta import Eta
from ...models.port import Model

PredictCompletion = Callable[[JobTable, Forecast], Eta]
"""Predicts the start and finish of a job (a table of one row) with this forecast."""


def try_out(view: View, model: Model, predict: PredictCompletion, options: str, user: str) -> Eta:
    """Predict the start and finish of a job of *user* with these sbatch *options* if it were submitted now.

    A job without -t gets the longest limit of its partitions. ConfigError or CommentError describes invalid options.
    """
    read_back = read_options(options)
    names = tuple(view.partitions.name)
    job = probe(read_back, user, view.now_s, local_zone(), names)
    if "time" not in read_back:
        partition_rows = [names.index(name) for name in job.partition[0].split(",")]
        job = replace(job, time_limit_s=view.partitions.max_time_s[partition_rows].max(keepdims=True))
    answer = predict(job, model.forecast(job, view.now_s))
    left_out = not_counted(read_back)
    return replace(answer, job_id=0, notes=(*answer.notes, *([left_out] if left_out else [])))
