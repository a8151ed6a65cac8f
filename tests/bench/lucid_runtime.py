"""``python -m tests.bench.lucid_runtime``: the runtime model against what it has to beat, on three logs; minutes.

Every forecast rests on runs that had ended when the job was submitted, every model on runs that had ended when it was
fitted. A run ends its runtime after its submission, as if it had never waited.
"""

from __future__ import annotations

import csv
import gc
import gzip
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

from slurmsched.cluster.columns import FloatArray, Labels, table_of
from slurmsched.cluster.jobs import JobState, JobTable, job_table
from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.decide.sharing.pairing import WINDOW
from slurmsched.models.runtime.estimator import Estimator
from slurmsched.models.runtime.group_windows import Windows
from slurmsched.models.runtime.history_index import HistoryIndex, compact
from slurmsched.models.runtime.model_inputs import Profiles, inputs
from slurmsched.models.runtime.model_selection import BacktestForecasts, backtest_models, judge, pinball, score
from slurmsched.models.runtime.point_predictors import (
    LAST_OF_NAME,
    LAST_OF_USER,
    LIMIT,
    Fit,
    fit_ga2m,
    fit_trees,
    repeating,
)
from slurmsched.policies.sharing import pairs
from slurmsched.policies.sharing_candidates import PackingLimits, Sharers
from slurmsched.simulator.traces import read
from slurmsched.simulator.workload.workload import Workload, as_submitted

from .machine import machine

DATA = Path(__file__).parents[3] / "shared" / "data"
OCTOBER_S = (2294959.0, 2899759.0)  # its first week, in the semi-synthetic trace's own seconds
REFITS = 7
LARGE = (300_000, 1_000_000)

HOW: dict[str, Fit] = {
    "additive": fit_ga2m,
    "trees (LightGBM)": fit_trees,
    "user + name last 2": repeating(LAST_OF_NAME),
    "user last 2": repeating(LAST_OF_USER),
    "requested limit": repeating(LIMIT),
}


@dataclass(frozen=True)
class Case:
    """A log, the span that is tested, and what was profiled."""

    name: str
    history: OutcomeTable
    span_s: tuple[float, float]
    profiles: Callable[[OutcomeTable], Profiles] | None = None


def main() -> None:
    """All of it, or the cases whose names begin with a word given, ``serving`` and ``large`` among them."""
    print(machine())
    for case in cases():
        if len(sys.argv) < 2 or any(case.name.startswith(word) for word in sys.argv[1:]):
            bench(case)
    if len(sys.argv) < 2 or "serving" in sys.argv[1:]:
        bench_serving()
    if len(sys.argv) < 2 or "large" in sys.argv[1:]:
        for rows in LARGE:
            bench_training(rows)


def cases() -> list[Case]:
    """NASA and UB: the last 30 % of the submissions; semi-synthetic: the first week of October after September."""
    found = []
    for name, file in (("NASA", "nasa_ipsc_1993.swf.gz"), ("UB", "ub_week.events")):
        history = outcomes(read(DATA / file, cpu_jobs=True).workload)
        submit_s = history.first_submit_s
        found.append(Case(name, history, (float(np.quantile(submit_s, 0.7)), float(submit_s.max()) + 1)))
    file = DATA / "philly_semisynthetic.csv.gz"
    history = outcomes(read(file).workload)
    found.append(Case("semi-synthetic", history, OCTOBER_S))
    found.append(Case("semi-synthetic, profiled", history, OCTOBER_S, profiles(file)))
    return found


def outcomes(jobs: Workload) -> OutcomeTable:
    """Each job as a run that started when it was submitted."""
    nodes = np.maximum(jobs.nodes, 1)
    columns = {name: getattr(jobs, name) for name in ("gpus", "time_limit_s", "user", "name", "account", "partition")}
    times = dict.fromkeys(("first_submit_s", "eligible_s", "started_s"), jobs.submit_s)
    more = {
        "job_id": np.arange(len(jobs)),
        "qos": jobs.qos,
        "nodes": nodes,
        "cpus": nodes * np.maximum(jobs.cpus, 1),
        "ended_s": jobs.submit_s + jobs.runtime_s,
        "runtime_s": jobs.runtime_s,
    }
    return table_of(OutcomeTable, len(jobs), {"state": JobState.COMPLETED}, columns | times | more)


def profiles(file: Path) -> Callable[[OutcomeTable], Profiles]:
    """What the trace attaches to each job, found by its row."""
    with gzip.open(file, "rt") as text:
        rows = [[float(row[name]) for name in ("gpu_util", "gmem_util", "gmem_mib")] for row in csv.DictReader(text)]
    table = np.array(rows)
    return lambda runs: Profiles(*table[runs.job_id].T.copy())


def bench(case: Case) -> None:
    """One line per way to forecast."""
    began_s, ended_s = case.span_s
    moments = tuple(np.linspace(began_s, ended_s, REFITS + 1)[:-1].tolist())
    print(f"{case.name}: {len(case.history):,} runs, {REFITS} refits")
    quantiles = user_quantiles(HistoryIndex.of(case.history))
    base = np.nan
    for name, how in HOW.items():
        began = time.perf_counter()
        told = backtest_models(case.history, how, moments, ended_s, case.profiles)
        took_s = time.perf_counter() - began
        found = score(told)
        if np.isnan(base):
            base = pinball(told.log_runtime, quantiles(told), (0.5, 0.9))
            print(f"  {found.runs:,} tested; pinball loss of the user's own quantiles {base:.3f}")
        print(
            f"  {name:<20} R2 {found.r2:6.3f}  median error {found.median_error:.3f}  mean {found.mean_error:.3f}"
            f"  pinball {found.pinball:.3f} ({found.pinball / base - 1:+.0%})  done by {found.coverage:.1%}"
            f"  macro {macro(told)}  {took_s:.0f} s"
        )
    verdict = judge(case.history, until_s=began_s, profiles=case.profiles)
    losses = ", ".join(f"{name} {found.pinball:.3f}" for name, found in verdict.scores.items())
    print(f"  the judge, by {verdict.scores[verdict.chosen].runs:,} runs before the span: {verdict.chosen} ({losses})")
    print(f"  {verdict.why}\n", flush=True)


def macro(told: BacktestForecasts) -> str:
    """Median over users with ten runs and more of their own median error."""
    off = np.abs(told.log_runtime - told.bounds[1])
    users = told.runs.user.codes
    own = [np.median(off[users == user]) for user in np.unique(users) if (users == user).sum() >= 10]
    return f"{np.median(own):.3f}" if own else "-"


def user_quantiles(past: HistoryIndex) -> Callable[[BacktestForecasts], FloatArray]:
    """The 50 % and 90 % quantiles of the user's last twenty runs, else of the last twenty of all."""

    def quantiles(told: BacktestForecasts) -> FloatArray:
        known = past.known_at(told.runs.first_submit_s)
        result = np.full((2, len(known)), np.nan)
        own = {text: code for code, text in enumerate(past.runs.user.names)}
        users = told.runs.user.map([own[text] for text in told.runs.user.names], np.int64)
        for codes, asked, groups in (
            (past.runs.user.codes, users, len(own)),
            (np.zeros(len(past), dtype=np.int64), np.zeros(len(known), dtype=np.int64), 1),
        ):
            windows = Windows.of(codes, groups, past.log_runtime)
            begin, to = windows.bounds(asked, known, 20)
            for row in np.flatnonzero(np.isnan(result[0]) & (to > begin)).tolist():
                result[:, row] = np.quantile(windows.values[begin[row] : to[row]], (0.5, 0.9))
        return result

    return quantiles


def bench_serving() -> None:
    """One cycle of Lucid for queues of October by tables trained on September; milliseconds of processor time.

    First is the first cycle of a new model, with what it derives for each known group of runs; then come the median and
    the quickest of later ones. Packing looks for hosts among 384 running jobs.
    """
    trace = read(DATA / "philly_semisynthetic.csv.gz").workload
    october = trace.submit_s >= OCTOBER_S[0]
    history, waiting = outcomes(trace.take(~october)), as_submitted(trace.take(october))
    document = Estimator.fit(history).document()
    running = sharers(compacted(waiting.take(np.arange(384))), np.full(384, 3600.0), shift=1_000_000)
    print(f"{'jobs':>8}{'':9}{'features':>10}{'forecast':>10}{'order':>8}{'packing':>9}{'all':>8}   ms")
    for jobs in (2_048, 100_000):
        queue = compacted(waiting.take(np.arange(jobs) % len(waiting)))
        use, took = sharers(queue, np.zeros(jobs)), []
        model = Estimator.of_document(document, history)
        gc.collect()
        for _ in range(41):
            began = [time.process_time()]
            inputs(queue, model.past, model.buckets)
            began.append(time.process_time())
            told = model.forecast(queue)
            began.append(time.process_time())
            work_s = told.runtime_s * queue.gpus
            order = np.lexsort((queue.job_id, work_s))
            began.append(time.process_time())
            wait_s = np.cumsum(work_s[order]) / 384
            first = replace(use, left_s=told.runtime_s).take(order[:WINDOW])
            pairs(first, wait_s[:WINDOW], running, np.ones(384, np.bool_), PACKING)
            began.append(time.process_time())
            took.append(np.diff(began) * 1e3)
        later = np.array(took[1:])
        rows = {
            "first": took[0],
            "later": np.median(later, axis=0),
            "quickest": later[later[:, 1:].sum(axis=1).argmin()],
        }
        for name, (features, forecast, order_, packing) in rows.items():
            whole = forecast + order_ + packing  # a forecast makes its features itself
            print(f"{jobs:8,}{name:>9}{features:10.2f}{forecast:10.2f}{order_:8.2f}{packing:9.2f}{whole:8.2f}")


PACKING = PackingLimits(memory_mib=0.95 * 24576)


def compacted(jobs: JobTable) -> JobTable:
    """The same jobs without the texts that none of them has, as they come from Slurm."""
    columns = {one.name: getattr(jobs, one.name) for one in fields(jobs)}
    texts = {name: compact(column) for name, column in columns.items() if isinstance(column, Labels)}
    return jobs.changed(**texts)


def sharers(jobs: JobTable, left_s: FloatArray, shift: int = 0) -> Sharers:
    """The jobs as ones that were all measured, with made-up use."""
    random, length = np.random.default_rng(0), len(jobs)
    return Sharers(
        job_id=jobs.job_id + shift,
        user=jobs.user,
        kind=jobs.name,
        gpus=jobs.gpus,
        open_gpus=jobs.gpus,
        nodes=np.ones(length, np.int64),
        score=random.integers(0, 3, length),
        memory_mib=random.uniform(1000, 20000, length),
        gpu_util=random.uniform(0.1, 0.6, length),
        kept=np.ones(length),
        speed=np.ones(length),
        left_s=left_s,
        measured=np.ones(length, np.bool_),
        unstable=np.zeros(length, np.bool_),
        barred=np.zeros(length, np.bool_),
    )


def bench_training(rows: int) -> None:
    """Training on a made-up site of 500 users, and serving 2,048 and 100,000 jobs."""
    history = made_up(rows)
    began = time.perf_counter()
    past = HistoryIndex.of(history)
    inputs_s = time.perf_counter() - began
    model = Estimator.fit(history)
    took_s = time.perf_counter() - began - inputs_s
    peak_gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"training on {rows:,} runs: {took_s:.0f} s, {peak_gib:.1f} GiB at most")
    for jobs in (2_048, 100_000):
        queue = history.take(slice(len(past) - jobs, None))
        pending = job_table(jobs, **{name: getattr(queue, name) for name in _QUEUE})
        features_s = median_s(lambda pending=pending: inputs(pending, model.past, model.buckets))
        forecast_s = median_s(lambda pending=pending: model.forecast(pending))
        print(f"  {jobs:,} jobs: features {features_s * 1e3:.2f} ms, with forecast {forecast_s * 1e3:.2f} ms")
    began = time.perf_counter()
    later = model.learn(replace(queue.take(slice(0, 100)), ended_s=queue.ended_s[:100] + 1e9))
    later.forecast(pending.take(slice(0, 2_048)))
    print(f"  learning 100 runs and the next forecast: {(time.perf_counter() - began) * 1e3:.0f} ms", flush=True)


_QUEUE = (
    "job_id",
    "user",
    "account",
    "qos",
    "partition",
    "name",
    "gpus",
    "nodes",
    "cpus",
    "time_limit_s",
    "first_submit_s",
)


def median_s(work: Callable[[], object]) -> float:
    """Median seconds of nine runs of *work*, after one to warm up."""
    work()
    took = []
    for _ in range(9):
        began = time.perf_counter()
        work()
        took.append(time.perf_counter() - began)
    return float(np.median(took))


def made_up(rows: int) -> OutcomeTable:
    """Runs of 500 users with 20 names each, lognormal round a value of each name."""
    random = np.random.default_rng(0)
    user, name = random.integers(0, 500, rows), random.integers(0, 20, rows)
    typical = random.normal(6.5, 1.5, (500, 20))
    gpus = 2 ** (name % 4)
    runtime_s = np.ceil(np.exp(typical[user, name] + random.normal(0, 0.8, rows)))
    submit_s = np.sort(random.uniform(0, 20.0 * rows, rows))
    texts = Labels(
        name * 50 + random.integers(0, 50, rows), tuple(f"{chr(97 + n // 50)}job_{n % 50}" for n in range(1000))
    )
    return table_of(
        OutcomeTable,
        rows,
        {"state": JobState.COMPLETED, "nodes": 1},
        {
            "job_id": np.arange(rows),
            "user": Labels(user, tuple(f"user{u}" for u in range(500))),
            "name": texts,
            "gpus": gpus,
            "cpus": 8 * gpus,
            "time_limit_s": 3600.0 * 4 ** (name % 5),
            "first_submit_s": submit_s,
            "eligible_s": submit_s,
            "started_s": submit_s,
            "ended_s": submit_s + runtime_s,
            "runtime_s": runtime_s,
        },
    )


if __name__ == "__main__":
    main()
