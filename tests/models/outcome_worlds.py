"""Histories for the models' tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from slurmsched.cluster.columns import Labels
from slurmsched.cluster.jobs import JobState, JobTable, job_table
from slurmsched.cluster.records.outcomes import OutcomeTable


def history(runtime_s: Sequence[float], **columns: Any) -> OutcomeTable:
    """Runs one after the other, an hour apart, of alice's ``train_N`` on one GPU unless *columns* say otherwise."""
    length = len(runtime_s)
    run = np.array(runtime_s, dtype=np.float64)
    submit = np.asarray(columns.get("first_submit_s", 3600.0 * np.arange(length)), dtype=np.float64)
    nothing = [""] * length
    values: dict[str, Any] = {
        "job_id": np.arange(1, length + 1), "restart": [0] * length, "name": [f"train_{i}" for i in range(length)],
        "user": ["alice"] * length, "account": nothing, "qos": nothing, "partition": nothing, "gpus": [1] * length,
        "nodes": [1] * length, "cpus": [1] * length, "time_limit_s": [np.inf] * length, "first_submit_s": submit,
        "eligible_s": submit, "started_s": submit, "ended_s": submit + run, "runtime_s": run,
        "state": [int(JobState.COMPLETED)] * length,
    }  # fmt: skip
    return OutcomeTable(**{name: _column(name, value) for name, value in (values | columns).items()})


def job(**columns: Any) -> JobTable:
    """One pending job of alice's on one GPU unless *columns* say otherwise."""
    said = {"job_id": 1, "name": "train_99", "user": "alice", "gpus": 1} | columns
    return job_table(
        1, **{name: Labels.of([value]) if isinstance(value, str) else [value] for name, value in said.items()}
    )


def jobs_of(outcomes: OutcomeTable) -> JobTable:
    """The jobs of *outcomes* as they stood in the queue: nothing of what became of them."""
    known = ("job_id", "name", "user", "gpus", "time_limit_s")
    return job_table(len(outcomes), **{name: getattr(outcomes, name) for name in known})


def busy_site(length: int, seed: int = 0) -> OutcomeTable:
    """Thirty users with four kinds of job each, whose runtimes scatter lognormally round a value of their own."""
    random = np.random.default_rng(seed)
    typical = np.random.default_rng(7).normal(6.5, 1.5, (30, 4))
    user, kind = random.integers(0, 30, length), random.integers(0, 4, length)
    runtime_s = np.ceil(np.exp(typical[user, kind] + random.normal(0, 0.8, length)))
    submit_s = np.sort(random.uniform(0, 600.0 * length, length)) + 1e7 * seed
    return history(
        runtime_s,
        job_id=np.arange(length) + 10_000_000 * seed,
        first_submit_s=submit_s,
        user=[f"user{u}" for u in user],
        name=[f"{'abcd'[k]}_{i}" for i, k in enumerate(kind)],
        gpus=2 ** (user % 4),
    )


def _column(name: str, value: Any) -> Any:
    if name in ("name", "user", "account", "qos", "partition"):
        return value if isinstance(value, Labels) else Labels.of(value)
    whole = name in ("job_id", "restart", "gpus", "nodes", "cpus", "state")
    return np.array(value, dtype=np.int64 if whole else np.float64)
