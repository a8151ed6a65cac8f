"""Gradient-boosted trees (LightGBM) on what was asked, the queue, and recent waits."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray
from ...errors import MissingExtra
from ...models.completion.completion_calibration import GRACE_S
from .predictors import SHARES, Moment
from .wait_log import WaitLog

REFIT_S = 86400.0  #: time between two trainings
LEAST = 200  #: known waits needed to train on
LATEST = 30_000  #: known waits to train on at most
RECENT = 50  #: starts behind a recent wait
DAY_S = 86400.0
SETTINGS = {
    "objective": "quantile",
    "verbose": -1,
    "num_threads": 1,
    "seed": 7,
    "deterministic": True,
    "force_col_wise": True,
    "learning_rate": 0.05,
    "min_data_in_leaf": 40,
}
ROUNDS = 150


class Boosted:
    """Three models, one for each quantile of the logarithm of the wait, trained again each day of the log.

    What a job looked like when it was asked for is kept, and becomes training data when it has started.
    """

    name = "boosted trees"

    def __init__(self) -> None:
        self._rows: list[IntArray] = []
        self._features: list[FloatArray] = []
        self._models: list[Any] = []
        self._trained_s = -np.inf

    def predict(self, moment: Moment) -> FloatArray:
        """Return the quantiles of each row, sorted; NaN while too few waits are known."""
        features = features_at(moment)
        if moment.scored and moment.now_s >= self._trained_s + REFIT_S:
            self._train(moment.known)
            self._trained_s = moment.now_s
        self._rows.append(moment.rows)
        self._features.append(features)
        if not self._models:
            return np.full((len(SHARES), len(moment.rows)), np.nan)
        logs = np.sort([model.predict(features) for model in self._models], axis=0)
        return np.asarray(np.maximum(0.0, np.exp(logs) - GRACE_S))

    def _train(self, known: WaitLog) -> None:
        """Train on the jobs that were asked for and have started since."""
        if not self._rows:
            return
        rows, features = np.concatenate(self._rows), np.concatenate(self._features)
        waits_s = known.wait_s[rows]
        told = np.flatnonzero(np.isfinite(waits_s))[-LATEST:]
        if len(told) < LEAST:
            return
        lightgbm = _lightgbm()
        data = partial(lightgbm.Dataset, features[told], np.log(waits_s[told] + GRACE_S), categorical_feature=[0])
        self._models = [lightgbm.train(SETTINGS | {"alpha": share}, data(), ROUNDS) for share in SHARES]


def features_at(moment: Moment) -> FloatArray:
    """Return what is known of each row at *moment*; shape (rows, features), the first one a category."""
    known, rows, now_s = moment.known, moment.rows, moment.now_s
    asked = known.take(rows)
    columns = [
        asked.partition.codes,
        *(asked.gpus, asked.cpus, asked.nodes, asked.memory_mib),
        np.where(np.isfinite(asked.time_limit_s), asked.time_limit_s, np.nan),
        now_s - asked.submit_s,
        np.full(len(rows), now_s % DAY_S / 3600.0),
        np.full(len(rows), now_s // DAY_S % 7),
    ]
    everyone = np.zeros(len(known), dtype=np.int64)
    for group in (everyone, known.partition.codes, known.account.codes):
        columns += _queue(known, rows, group) + _recent(moment, group)
    return np.array(columns, dtype=np.float64).T


def _queue(known: WaitLog, rows: IntArray, group: IntArray) -> list[FloatArray]:
    """Return what waits, what waits ahead, and what runs in the group of each of *rows*: jobs, GPUs, CPUs, work."""
    size, of = int(group.max(initial=0)) + 1, group[rows]
    limit_s = np.where(np.isfinite(known.time_limit_s), known.time_limit_s, DAY_S)
    amounts = (np.ones(len(known)), known.gpus, known.cpus, known.cpus * limit_s, known.gpus * limit_s)
    waits, runs = known.waits, known.runs
    found: list[FloatArray] = []
    for amount in amounts:
        for some in (waits, runs):
            found.append(np.bincount(group[some], amount[some], minlength=size)[of].astype(np.float64))
        found.append(_ahead(known, waits, group, np.asarray(amount, dtype=np.float64), rows))
    return found


def _ahead(known: WaitLog, waits: BoolArray, group: IntArray, amount: FloatArray, rows: IntArray) -> FloatArray:
    """Return the amount that waits before each of *rows* in its group, by priority and then by arrival."""
    line = np.flatnonzero(waits)
    order = line[np.lexsort((line, -known.priority[line], group[line]))]
    before = np.cumsum(amount[order]) - amount[order]
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = np.diff(group[order]) != 0
    ahead = np.full(len(known), np.nan)
    ahead[order] = before - before[first][np.cumsum(first) - 1]
    return ahead[rows]


def _recent(moment: Moment, group: IntArray) -> list[FloatArray]:
    """Return of the latest starts in the group of each row: median wait and its scatter, age, and starts in a day."""
    known, waited = moment.known, moment.waited
    groups, of = np.unique(group[moment.rows], return_inverse=True)
    found = []
    for one in groups.tolist():
        rows = waited[group[waited] == one]
        logs = np.log(known.wait_s[rows[-RECENT:]] + GRACE_S)
        last_s = moment.now_s - known.start_s[rows[-1]] if len(rows) else np.nan
        low, middle, high = np.quantile(logs, SHARES) if len(logs) else (np.nan,) * 3
        found.append((low, middle, high, last_s, float((known.start_s[rows] >= moment.now_s - DAY_S).sum())))
    return list(np.array(found).reshape(len(groups), 5)[of].T)


def _lightgbm() -> Any:
    try:
        import lightgbm
    except ImportError as error:
        raise MissingExtra("boosted trees need LightGBM", "learn") from error
    return lightgbm
