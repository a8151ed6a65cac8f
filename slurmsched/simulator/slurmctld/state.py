"""The state of a modelled slurmctld: its settings, its queue, and what bounds jobs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray
from ...policies.by_address import packed
from ...policies.selection import sorted_rows
from ...policies.selection.allowed_nodes import PartitionSets
from ...policies.selection.loops import Started, Turns
from ...policies.selection.planned_room import BackfillPlan
from ...policies.selection.preemption import Spare
from ...policies.selection.sorted_rows import Line
from ..engine import job_state
from ..engine.job_state import COMPLETED, PENDING, UNBORN, MachineContext
from ..engine.keys import Keys
from ..engine.ranked_runs import RankedRuns
from .fair_share import Usage
from .gates import Gates
from .multifactor import Factors, Weights

NOW, ARRIVED, MAIN_DUE, MAIN_LAST, BACKFILL_DUE, BACKFILL_LAST, CALC_DUE, ORDER_STALE = 0, 1, 2, 3, 4, 5, 6, 7
ACTIVE, IDLE, FRAGMENTED, SUBMITTED, AWAITED, AWAITED_STOP = 8, 9, 10, 11, 12, 13
"""Places in ``Controller.clock``: times, GPUs of admitted jobs that go on, GPU-seconds free while jobs wait, rows.

The jobs from row AWAITED up to AWAITED_STOP, which is NEVER by default, are those whose ends end the simulation.
"""


class SlurmctldConfig(NamedTuple):
    """The scheduling settings of slurm.conf; names as in SchedulerParameters(5) and PriorityCalcPeriod."""

    poll_s: float = 1.0  #: slurmctld checks once a second whether its main loop is due
    batch_sched_delay_s: float = 3.0
    default_queue_depth: int = 100
    bf_interval_s: float = 30.0
    bf_resolution_s: float = 60.0
    bf_window_s: float = 86400.0
    bf_max_job_test: int = 500
    reservations: int = 500  #: in a pass, per set of partitions; 1 is EASY, slurmctld gives each job it tests one
    calc_period_s: float = 300.0
    requeue_delay_s: float = 121.0  #: Slurm lets the credential of the last run expire first
    restart_s: float = 0.0  #: cost of resuming a job whose work survives
    restart_doubling_s: float = 0.0  #: additional cost for each doubling of its GPUs
    saves_s: float = 0.0  #: time in which a job that is asked to stop saves its work
    admission: float = np.inf  #: bound on GPUs of admitted jobs; others wait outside in turn
    direct: bool = False  #: no slurmctld: given keys determine the order, and a decision follows each event at once
    blocking: bool = True  #: beside ``direct``: no job passes one of its partition that does not fit
    reserving: bool = False  #: beside ``direct``: nodes are kept for jobs that do not fit
    whole_nodes: bool = True  #: a reservation keeps its nodes whole
    epilog: bool = False  #: nodes report the end of an epilog, at which the main loop runs without waiting for its poll
    repacking: bool = False  #: beside ``direct``: at each decision the best jobs run, whatever ran before
    counts_idle: bool = True  #: GPU-seconds that are free while jobs wait are added up


class JobAdjustments(NamedTuple):
    """Changes to jobs by an admin, a user or us, one row each."""

    points: IntArray  #: SiteFactor
    nice: IntArray
    held: BoolArray
    barred: BoolArray  #: may not run for a reason that is not modelled


class Caps(NamedTuple):
    """The limits on GPUs of accounts (GrpTRES)."""

    account: IntArray  #: of each job
    most: IntArray  #: per account
    used: IntArray  #: per account


class Outages(NamedTuple):
    """Failures and repairs of nodes, by time."""

    at_s: FloatArray
    node: IntArray
    up: BoolArray  #: True for a repair


class Scratch(NamedTuple):
    """The working arrays of a starter."""

    waiting: IntArray  #: the jobs that may run, in turn
    turns: Turns
    started: Started
    used: IntArray  #: GPUs per account
    spare: Spare
    ranked: IntArray  #: running jobs by key
    keys: FloatArray  #: of ``ranked``
    order: IntArray  #: running and waiting jobs by key
    runs: BoolArray  #: per job
    yields: BoolArray  #: per job
    taken: IntArray  #: entries taken from ``ranked``, and their heaps
    taken_keys: FloatArray  #: of ``taken``


@packed
class Controller(NamedTuple):
    """The whole state of a modelled controller."""

    stage: MachineContext
    queue: Line  #: waiting jobs, the smallest key first
    rules: SlurmctldConfig
    weights: Weights
    usage: Usage
    factors: Factors
    wishes: JobAdjustments
    base: IntArray  #: priority without points and nice, per job
    parts: PartitionSets
    caps: Caps
    gates: Gates
    outages: Outages
    outlook: BackfillPlan
    given: Keys  #: of a direct executor
    ranked: RankedRuns  #: running jobs by these, of a direct executor that preempts
    scratch: Scratch
    blocked: BoolArray  #: scratch, per partition set
    reserved: IntArray  #: scratch, per partition set
    barred: BoolArray  #: scratch, per node
    clock: FloatArray


def validate(c: Controller) -> None:
    """Raise AssertionError where queue, limits and admission do not agree with the state of the jobs."""
    job_state.validate(c.stage)
    sorted_rows.validate(c.queue, None if c.rules.direct else np.floor(c.stage.life.submit_s))
    state, gpus = c.stage.life.state, c.stage.requests.gpus
    waiting, running = c.queue.rows[: c.queue.many[0]], c.stage.running.rows[: c.stage.running.many[0]]
    assert np.array_equal(np.sort(waiting), np.flatnonzero(state == PENDING)), "the queue is not the pending jobs"
    used = np.bincount(c.caps.account[running], weights=gpus[running], minlength=len(c.caps.used))
    assert (c.caps.used == used).all(), "the GPUs counted for an account are not those of its jobs"
    assert c.clock[ARRIVED] == (state != UNBORN).sum(), "the number of admitted jobs is wrong"
    active = gpus[(state != UNBORN) & (state != COMPLETED)].sum()
    assert c.clock[ACTIVE] == active, "the GPUs of admitted jobs are not those of jobs that go on"
