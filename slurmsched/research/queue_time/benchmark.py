"""The benchmark: waits are asked for in the order of time, and each predictor sees the log as it was then."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...simulator.traces.trace import TraceError
from .boosted import Boosted
from .play_forward import PlayForward
from .predictors import Constant, GroupMedian, Moment, SlurmEstimate, WaitPredictor
from .scores import QueueTimes, score
from .wait_log import WaitData, WaitLog

LEARN = 0.6  #: share of the questions, the earliest ones, that predictors only learn from
LEAST = 20  #: questions that are too few for a benchmark

Progress = Callable[[int, int], None]
"""Receives the moments asked at so far, and all of them."""


def benchmark(name: str, data: WaitData, most: int, progress: Progress = lambda done, total: None) -> QueueTimes:
    """Ask all predictors of *data* for at most *most* waits, evenly over the log, and score the later ones.

    TraceError where the log has too few waits.
    """
    log = data.log
    rows = questions(log, most)
    if len(rows) < LEAST:
        raise TraceError(f"{name}: {len(rows)} jobs with a known wait are too few: at least {LEAST} are needed")
    since_s = float(log.asked_s[rows[int(len(rows) * LEARN)]])
    predictors = predictors_for(data)
    scored = rows[log.asked_s[rows] >= since_s]
    said = predicted(log, rows, predictors, since_s, progress)
    true_s = log.wait_s[scored]
    scores = [score(one.name, said[one.name][:, -len(scored) :], true_s) for one in predictors]
    return QueueTimes(
        name,
        data.format,
        len(log),
        tuple(map(str, data.notes)),
        len(rows) - len(scored),
        since_s,
        float(np.median(true_s)),
        tuple(one for one in scores if one.answered),
    )


def questions(log: WaitLog, most: int) -> IntArray:
    """Choose the rows that are asked for, in the order of their moments: jobs that have started, evenly spread."""
    rows = np.flatnonzero(np.isfinite(log.start_s))
    rows = rows[np.argsort(log.asked_s[rows], kind="stable")]
    if len(rows) <= most:
        return rows
    return rows[np.unique(np.linspace(0, len(rows) - 1, most).astype(np.int64))]


def predictors_for(data: WaitData) -> list[WaitPredictor]:
    """Return new predictors, ours last."""
    return [
        Constant(),
        GroupMedian("account"),
        GroupMedian("partition"),
        SlurmEstimate(),
        Boosted(),
        PlayForward(shared=data.shared),
    ]


def predicted(
    log: WaitLog,
    rows: IntArray,
    predictors: Sequence[WaitPredictor],
    since_s: float,
    progress: Progress = lambda done, total: None,
) -> dict[str, FloatArray]:
    """Return what each predictor says of *rows*, which are in the order of their moments; each shape (3, rows).

    Predictors get nothing of *log* but what was known at the moment. Those of moments before *since_s* only teach.
    """
    said: dict[str, list[FloatArray]] = {one.name: [] for one in predictors}
    moments = list(_moments(log, rows))
    for number, (now_s, some) in enumerate(moments):
        moment = Moment(now_s, log.known_at(now_s), some, scored=now_s >= since_s)
        for one in predictors:
            said[one.name].append(one.predict(moment))
        progress(number + 1, len(moments))
    return {name: np.concatenate(answers, axis=1) for name, answers in said.items()}


def _moments(log: WaitLog, rows: IntArray) -> Iterator[tuple[float, IntArray]]:
    """Yield each moment with the rows that are asked for at it."""
    asked_s = log.asked_s[rows]
    for some in np.split(rows, np.flatnonzero(np.diff(asked_s) != 0) + 1):
        yield float(log.asked_s[some[0]]), some
