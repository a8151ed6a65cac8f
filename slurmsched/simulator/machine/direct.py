"""The direct executor on clusters that are more than one pool of equal nodes: each plan is carried out exactly.

It covers partitions, GPU types, CPUs, memory, features, account limits, failing nodes and speeds that depend on
placement; and orderings whose keys change with time, on every cluster. The machine is that of the modelled slurmctld,
with an ordering's keys instead of priorities and a decision after each event.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...policies.selection.resources import number_forms
from ..cluster_spec import ClusterSpec
from ..engine.calendar import NEVER
from ..engine.job_state import JobSpeed
from ..engine.keys import Keys
from ..engine.ranked_runs import IN_USE
from ..slurmctld.slurmconf import ALL, SlurmConf
from ..slurmctld.slurmctld import put_in_order
from ..slurmctld.state import NOW, Controller, Outages, SlurmctldConfig, validate
from ..workload.workload import EVERY_JOB, Workload
from .controller import await_only, controller, with_room_to_log
from .event_loop import to_decision
from .observation import ran_s
from .outages import no_outages, outages
from .starters import in_turn, repacking, reserving, run_in_turn, run_repacking, run_reserving

RanS = Callable[[IntArray], FloatArray]
"""A function from rows to how long each of these jobs has run."""

Ask = Callable[[float, IntArray, IntArray, RanS], FloatArray]
"""A function to the keys of jobs at a time, and beside the running jobs of the third argument.

It is for an ordering that is called at each decision. A selection that preempts has all present jobs in one order, and
then none is beside them.
"""

_SELECTIONS = {
    "strict": SlurmctldConfig(),
    "backfill": SlurmctldConfig(blocking=False),
    "easy": SlurmctldConfig(reserving=True, reservations=1),
    "conservative": SlurmctldConfig(reserving=True, reservations=ALL),
    "preemptive": SlurmctldConfig(repacking=True),
}


def rules_of(selection: str, beat_s: float, depth: int) -> SlurmctldConfig:
    """Return the rules of a selection, without the delays of slurmctld's loops."""
    return _SELECTIONS[selection]._replace(
        poll_s=beat_s,
        batch_sched_delay_s=0.0,
        calc_period_s=NEVER,
        default_queue_depth=ALL,
        bf_interval_s=0.0,
        bf_resolution_s=1.0,
        bf_window_s=NEVER,
        bf_max_job_test=depth,
        requeue_delay_s=0.0,
        direct=True,
        whole_nodes=False,
    )


def direct(
    jobs: Workload,
    fleet: ClusterSpec,
    rules: SlurmctldConfig,
    keys: Keys,
    how: IntArray,
    *,
    outages: Outages | None = None,
    pace: JobSpeed | None = None,
    awaited: slice = EVERY_JOB,
    logged: bool = False,
) -> Controller:
    """Build the machine before its first event; *how* is each job's placement.

    Runs end with the last of the *awaited* jobs. With *logged*, every run is in ``stage.log``.
    """
    model = controller(jobs, fleet, SlurmConf(rules), outages=outages, pace=pace, given=keys, logged=logged)
    model.stage.requests.how[:] = how
    model.stage.life.keeps_work[:] = jobs.ckpt
    number_forms(model.stage.requests)
    if awaited != EVERY_JOB:
        await_only(model, awaited)
    return model


def run_direct(model: Controller, until_s: float = NEVER) -> Controller:
    """Advance to *until_s*, or to the end; return the model, whose log may have grown."""
    run, _ = _starter(model.rules)
    while True:
        run(model, until_s)
        before, model = model, with_room_to_log(model)
        if model is before:
            return model


def run_asking(model: Controller, key_source: Ask | None, *, check: bool = False) -> Controller:
    """Run to the end from decision to decision; *key_source* gives keys that change with time.

    With *check*, AssertionError names what is broken in the state of the machine. Return the model, whose log may have
    grown.
    """
    _, start = _starter(model.rules)
    if key_source is not None:  # keys change otherwise than with the time run
        model.ranked.counts[IN_USE] = 0
    while to_decision(model, NEVER):
        rows, beside = _present(model)
        if len(rows) and key_source is not None:
            model.given.at[:, rows] = key_source(float(model.clock[NOW]), rows, beside, partial(ran_s, model))
            put_in_order(model)
        start(model)
        model = with_room_to_log(model)
        if check:
            validate(model)
    if check:
        validate(model)
    return model


def _starter(rules: SlurmctldConfig) -> tuple[Callable[[Controller, float], None], Callable[[Controller], None]]:
    """Return the loop to the end of a selection, and its single decision."""
    if rules.repacking:
        return run_repacking, repacking
    return (run_reserving, reserving) if rules.reserving else (run_in_turn, in_turn)


def _present(model: Controller) -> tuple[IntArray, IntArray]:
    """Return the jobs that need a key, and the running jobs beside them."""
    waiting = np.sort(model.queue.rows[: model.queue.many[0]])
    running = np.sort(model.stage.running.rows[: model.stage.running.many[0]])
    if model.rules.repacking:
        return np.sort(np.concatenate([waiting, running])), running[:0]
    return waiting, running


def outages_of(jobs: Workload, fleet: ClusterSpec) -> Outages:
    """Generate the node failures, for twice the time that all jobs would take one after the other at full use."""
    if fleet.failures is None or not len(jobs):
        return no_outages()
    first_s, last_s = float(jobs.submit_s.min()), float(jobs.submit_s.max())
    work_s = float((jobs.runtime_s * np.maximum(jobs.gpus, 1)).sum()) / max(fleet.total, 1)
    longest_s = float(jobs.runtime_s.max())
    return outages(len(fleet.nodes), fleet.failures, first_s, last_s + 2 * work_s + 10 * longest_s)
