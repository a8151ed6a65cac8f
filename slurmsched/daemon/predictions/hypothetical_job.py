"""When a job would start and finish that nobody has submitted yet."""

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
"""When a job, a table of one row, would start and finish with this forecast."""


def try_out(view: View, model: Model, predict: PredictCompletion, options: str, user: str) -> Eta:
    """When a job of *user* with these *options* of sbatch would start and finish if it came now.

    A job without -t has the longest limit of its partitions. ConfigError or CommentError says what is wrong with the
    options.
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
