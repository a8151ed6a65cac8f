"""A hypothetical job on the cluster of a view, and its start and finish."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ...clock import local_zone
from ...cluster.forecast import Forecast
from ...cluster.jobs import JobTable
from ...cluster.sbatch_probe import Probe, Site, probe
from ...cluster.state import View
from ...cluster.text.sbatch import read_options
from ...decide.explain.eta import Eta
from ...models.port import Model

PredictCompletion = Callable[[JobTable, Forecast], Eta]
"""Predicts the start and finish of a job (a table of one row) with this forecast."""


def new_job(view: View, config: Mapping[str, str], options: str, user: str) -> Probe:
    """Return the job that *user* would submit now with these sbatch *options*; *config* is Slurm's.

    ConfigError or CommentError describes options that sbatch or slurmctld would refuse.
    """
    words = config.get("AccountingStorageEnforce", "").lower().split(",")
    enforced = frozenset(words) | ({"qos", "associations"} if "all" in words else set())
    site = Site(view.partitions, view.nodes, view.qos, enforced, view.limits)
    return probe(read_options(options), user, view.now_s, local_zone(), site)


def try_out(
    view: View, config: Mapping[str, str], model: Model, predict: PredictCompletion, options: str, user: str
) -> Eta:
    """Predict the start and finish of a job of *user* with these sbatch *options* if it were submitted now.

    A job without -t gets DefaultTime of its partition, else the longest limit. ConfigError or CommentError describes
    options that would be refused.
    """
    tried = new_job(view, config, options, user)
    answer = predict(tried.job, model.forecast(tried.job, view.now_s))
    return replace(answer, job_id=0, not_understood=tried.not_understood)
