"""The progress of training jobs over a span of time, epoch by epoch.

Plain Python: most replays take less time than it takes to load compiled code.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray
from ...simulator.speeds.performance import EndRule


class JobProgress(NamedTuple):
    """How far each job of a workload is; filled in place, a row per job."""

    done: FloatArray  #: iterations
    epoch: IntArray  #: number of the present one, from 0
    until: FloatArray  #: iterations at the end of each epoch
    epochs: IntArray
    rate: FloatArray  #: iterations per second in each epoch, on what the job has
    slowed: FloatArray  #: factor on it: 1 without interference
    restart_s: FloatArray  #: seconds left until it computes
    gpus: IntArray  #: that it has
    pauses: BoolArray  #: it stops at the end of an epoch, since its rate changes there
    worked: BoolArray  #: it computed since this was last cleared
    served_gpu_s: FloatArray
    credit: FloatArray  #: iterations by rate and time alone, whatever epochs ended at
    rounding: FloatArray  #: iterations by which that may differ from the progress
    end_s: FloatArray  #: NaN while it goes on


def no_progress(until: FloatArray, epochs: IntArray) -> JobProgress:
    """Return the state before the first round."""
    count = len(epochs)
    return JobProgress(
        done=np.zeros(count),
        epoch=np.zeros(count, np.int64),
        until=until,
        epochs=epochs,
        rate=np.zeros(until.shape),
        slowed=np.ones(count),
        restart_s=np.zeros(count),
        gpus=np.zeros(count, np.int64),
        pauses=np.zeros(count, np.bool_),
        worked=np.zeros(count, np.bool_),
        served_gpu_s=np.zeros(count),
        credit=np.zeros(count),
        rounding=np.zeros(count),
        end_s=np.full(count, np.nan),
    )


def advance(state: JobProgress, rows: IntArray, span_s: FloatArray, end_s: float, rule: EndRule) -> None:
    """Let *rows* train for the rest of their *span_s*, up to the moment *end_s*; what they do not use stays there.

    That is 0 but for jobs that pause at the end of an epoch. A job that ends has its GPUs for the whole round.
    """
    for row in rows.tolist():
        left_s, gpus = float(span_s[row]), int(state.gpus[row])
        waits = min(float(state.restart_s[row]), left_s)
        state.restart_s[row] -= waits
        state.served_gpu_s[row] += waits * gpus
        left_s -= waits
        while left_s > 0 and math.isnan(state.end_s[row]):
            epoch, done = int(state.epoch[row]), float(state.done[row])
            rate, goal = float(state.rate[row, epoch] * state.slowed[row]), float(state.until[row, epoch])
            state.worked[row] = True
            possible = math.floor(rate * left_s) if rule is EndRule.ROUND else rate * left_s
            if done + possible < goal:
                state.done[row] = done + possible
                state.rounding[row] += rate * left_s - possible
                spent_s = left_s
            else:
                spent_s = (goal - done) / rate
                if rule is EndRule.SECOND:
                    spent_s = min(round(spent_s), left_s)
                elif rule is EndRule.ROUND:
                    spent_s = left_s
                state.rounding[row] += abs(done + rate * spent_s - goal)
                state.done[row] = goal
                state.epoch[row] = epoch + 1
                if epoch + 1 == state.epochs[row]:
                    state.end_s[row] = end_s - left_s + spent_s
            state.credit[row] += rate * spent_s
            state.served_gpu_s[row] += spent_s * gpus
            left_s -= spent_s
            if state.pauses[row] and state.epoch[row] != epoch:
                break
        span_s[row] = left_s if math.isnan(state.end_s[row]) else 0.0
