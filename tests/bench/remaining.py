"""``python -m tests.bench.remaining``: what running jobs are said to need still, against what they needed; minutes.

Logs are split in time: a job of the last two fifths is forecast from the runs that had ended before its submission, and
what is left of it from those that had ended before it ran once, twice, and five times that long. A run ends its runtime
after its submission, as if it had never waited. Beside the figures stands what no forecast beats that is one multiple
of the time run, chosen afterwards.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slurmsched.cluster.columns import FloatArray, IntArray
from slurmsched.cluster.jobs import JobState, JobTable, job_table
from slurmsched.cluster.outlook.remaining import Remaining, remaining
from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.models.port import Model
from slurmsched.models.runtime.baseline import RuntimeModel
from slurmsched.models.runtime.estimator import Estimator
from slurmsched.simulator.trace_forecasts import as_outcomes
from slurmsched.simulator.traces import read

DATA = Path(__file__).parents[3] / "shared" / "data"
LOGS = ("philly.csv", "ub_week.events", "nasa_ipsc_1993.swf.gz", "philly_semisynthetic.csv.gz")
MULTIPLES = (1.0, 2.0, 5.0)
HISTORY = 0.6  #: share of the submissions that are history alone
MOMENTS = 300  #: at which the model learns what ended


@dataclass(frozen=True)
class Judged:
    """Jobs that ran for some multiple of their first forecast: what was left of them, and what was said."""

    ran_s: FloatArray
    truth_s: FloatArray
    said: Remaining

    @property
    def close(self) -> float:
        """The share of the medians within a factor of two of the truth."""
        return float((np.abs(np.log(self.said.median_s / self.truth_s)) <= np.log(2.0)).mean())

    @property
    def covered(self) -> float:
        """The share that needed no more than the 0.9 quantile."""
        return float((self.truth_s <= self.said.high_s + 0.5).mean())

    @property
    def best_multiple(self) -> float:
        """The share within a factor of two of one multiple of the time run, the best one for these very jobs."""
        ratio = np.sort(np.log(self.truth_s / self.ran_s))
        inside = np.searchsorted(ratio, ratio + 2 * np.log(2.0), side="right") - np.arange(len(ratio))
        return float(inside.max() / len(ratio))


def main(names: list[str]) -> None:
    """Print the figures of the logs whose names begin with one of *names*; of all without any."""
    print(f"{'log':30s}{'model':10s}{'ran':>4s}{'jobs':>8s}{'within x2':>11s}{'covered':>9s}{'best multiple':>15s}")
    for file in LOGS:
        if not names or any(file.startswith(name) for name in names):
            runs = by_end(as_outcomes(read(DATA / file, cpu_jobs=True).workload))
            for kind in ("baseline", "trained"):
                for multiple, judged in judgements(runs, kind):
                    figures = f"{len(judged.ran_s):8d}{judged.close:11.3f}{judged.covered:9.3f}"
                    print(f"{file:30s}{kind:10s}{multiple:3.0f}x{figures}{judged.best_multiple:15.3f}", flush=True)


def by_end(runs: OutcomeTable) -> OutcomeTable:
    """Return *runs* in the order they ended."""
    return runs.take(np.argsort(runs.ended_s, kind="stable"))


def judgements(runs: OutcomeTable, kind: str, moments: int = MOMENTS) -> Iterator[tuple[float, Judged]]:
    """Yield each of MULTIPLES, with the jobs of *runs*, sorted by end, that ran so much longer than first forecast."""
    submit_s = runs.first_submit_s
    since_s = np.linspace(np.quantile(submit_s, HISTORY), runs.ended_s.max(), moments + 1)
    first_s, came = np.full(len(runs), np.nan), np.searchsorted(since_s, submit_s, side="right") - 1
    said_s = np.full((len(MULTIPLES), 3, len(runs)), np.nan)
    for number, model in enumerate(_models(runs, kind, since_s[:-1])):
        at_s, until_s = since_s[number : number + 2]
        rows = np.flatnonzero(came == number)
        first_s[rows] = model.forecast(_running(runs, rows, np.zeros(len(rows)), at_s)).runtime_s
        for multiple, three_s in zip(MULTIPLES, said_s, strict=True):
            ran_s = np.rint(multiple * first_s)
            alive = (runs.runtime_s > ran_s) & (ran_s < runs.time_limit_s)
            rows = np.flatnonzero(alive & (submit_s + ran_s >= at_s) & (submit_s + ran_s < until_s))
            jobs = _running(runs, rows, ran_s[rows], at_s)
            said = remaining(model.forecast(jobs, at_s).in_whole_seconds(), ran_s[rows], ran_s[rows], jobs.time_limit_s)
            three_s[:, rows] = said.low_s, said.median_s, said.high_s
    for multiple, three_s in zip(MULTIPLES, said_s, strict=True):
        rows = np.flatnonzero(np.isfinite(three_s[1]))
        ran_s = np.rint(multiple * first_s)[rows]
        yield multiple, Judged(ran_s, runs.runtime_s[rows] - ran_s, Remaining(*three_s[:, rows]))


def _models(runs: OutcomeTable, kind: str, since_s: FloatArray) -> Iterator[Model]:
    """Yield the model at each moment, trained on what had ended before the first one."""
    ended = np.searchsorted(runs.ended_s, since_s)
    past = runs.take(slice(0, int(ended[0])))
    model: Model = RuntimeModel.fit(past) if kind == "baseline" else Estimator.fit(past)
    yield model
    for begin, end in zip(ended[:-1].tolist(), ended[1:].tolist(), strict=True):
        model = model.learn(runs.take(slice(begin, end)))
        yield model


def _running(runs: OutcomeTable, rows: IntArray, ran_s: FloatArray, now_s: float) -> JobTable:
    """Return the jobs of *rows* as they were when they had run for *ran_s*, at one moment."""
    names = ("user", "name", "account", "partition", "qos", "gpus", "nodes", "cpus", "time_limit_s", "job_id")
    some = runs.take(rows)
    begins = dict.fromkeys(("started_s", "submitted_s", "first_submit_s"), now_s - ran_s)
    state = np.full(len(rows), int(JobState.RUNNING))
    return job_table(len(rows), **{name: getattr(some, name) for name in names}, **begins, state=state)


if __name__ == "__main__":
    main(sys.argv[1:])
