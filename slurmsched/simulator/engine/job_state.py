"""The state of jobs on a modelled Slurm, in columns that compiled loops write."""

from __future__ import annotations

from collections.abc import Sized
from typing import NamedTuple

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray
from ...cluster.jobs import JobState
from ...policies.by_address import entry_by_address, packed
from ...policies.compiled import borrowing
from ...policies.selection import resources as nodes
from ...policies.selection import sorted_rows
from ...policies.selection.resources import (
    CHOSEN,
    GPUS,
    NEXT,
    NODE,
    NONE,
    Held,
    NodeResources,
    ResourceRequests,
    give_back,
    take,
)
from ...policies.selection.sorted_rows import Line, drop_out, line_up
from ...policies.selection.struct_arrays import records
from . import calendar as calendars
from .calendar import BEGIN, END, FREE, NEVER, SAVED, SERIALS, STEP, Calendar, note
from .segments import Segments, note_run

UNBORN = -1
ALONE = -1
PENDING, RUNNING, SUSPENDED = int(JobState.PENDING), int(JobState.RUNNING), int(JobState.SUSPENDED)
COMPLETING, COMPLETED, REQUEUED = int(JobState.COMPLETING), int(JobState.COMPLETED), int(JobState.REQUEUED)


class JobStates(NamedTuple):
    """The state of jobs, one row each; times are NaN until they have come."""

    state: IntArray  #: a JobState, or UNBORN
    submit_s: FloatArray  #: Slurm's: a requeue resets it
    begin_s: FloatArray  #: earliest start
    runtime_s: FloatArray  #: true runtime of all its work, at speed 1
    plan_s: FloatArray  #: duration that Slurm plans with: the time limit, a year where there is none
    left_s: FloatArray  #: work left when the present run began or resumed
    since_s: FloatArray  #: time of that begin or resumption
    speed: FloatArray  #: of the present run
    started_s: FloatArray  #: of the present run
    first_s: FloatArray  #: first start of all
    ended_s: FloatArray
    due_s: FloatArray  #: when the run ends; NEVER where it does not run
    spread: IntArray  #: most nodes it was on
    restarts: IntArray
    ran_s: FloatArray  #: seconds run before the present run
    level: IntArray  #: steps of attained service passed
    partner: IntArray  #: the row on whose GPUs it is a guest; ALONE where it has GPUs of its own
    guests: IntArray  #: number of its GPUs that have a guest
    lost_s: FloatArray  #: work that was lost
    keeps_work: BoolArray  #: its work survives a requeue
    saved_s: FloatArray  #: time at which it has saved its work and requeues itself; NEVER where it was not asked to
    joined: IntArray  #: runs that began on GPUs on which another job ran


class JobSpeed(NamedTuple):
    """The speeds of jobs: ``by_nodes[kind[row], n - 1]`` on *n* nodes, the last column for more.

    So do GPUs of a type, by ``by_type[type_kind[row], node_type[node]]``: the slowest of its nodes counts.
    A guest on the same GPUs multiplies that by ``beside[profile[row], profile[other]]``; profile 0 never shares, except
    by slots.
    """

    kind: IntArray
    by_nodes: FloatArray
    profile: IntArray
    beside: FloatArray
    type_kind: IntArray
    by_type: FloatArray  #: one column where types do not matter
    node_type: IntArray


@packed
class MachineContext(NamedTuple):
    """All arrays that state changes of jobs read and write."""

    resources: NodeResources
    held: Held
    requests: ResourceRequests
    life: JobStates
    pace: JobSpeed
    running: Line  #: jobs that hold their nodes, by the end that Slurm plans
    calendar: Calendar
    ready_s: FloatArray  #: when each node has powered up
    log: Segments  #: every run, where it has room
    launch_s: float  #: cost of a start before the work begins
    release_s: float  #: time from the end of a run until its nodes are free again


def not_submitted(submit_s: FloatArray, runtime_s: FloatArray, plan_s: FloatArray) -> JobStates:
    """Return the state of jobs that are not submitted yet."""
    count = len(submit_s)
    zeros = np.zeros(count, dtype=np.int64)
    unknown = np.full(count, np.nan)
    return records(
        JobStates(
            state=np.full(count, UNBORN, dtype=np.int64),
            submit_s=submit_s.copy(),
            begin_s=submit_s.copy(),
            runtime_s=runtime_s.copy(),
            plan_s=plan_s.copy(),
            left_s=runtime_s.copy(),
            since_s=unknown,
            speed=np.ones(count),
            started_s=unknown.copy(),
            first_s=unknown.copy(),
            ended_s=unknown.copy(),
            due_s=np.full(count, NEVER),
            spread=zeros,
            restarts=zeros.copy(),
            ran_s=np.zeros(count),
            level=zeros.copy(),
            partner=np.full(count, ALONE, dtype=np.int64),
            guests=zeros.copy(),
            lost_s=np.zeros(count),
            keeps_work=np.zeros(count, dtype=np.bool_),
            saved_s=np.full(count, NEVER),
            joined=zeros.copy(),
        )
    )


def alone(jobs: Sized) -> JobSpeed:
    """Return constant speed 1 for every job on any nodes, without sharing."""
    nobody = np.zeros(len(jobs), dtype=np.int64)
    types = nobody.copy(), np.ones((1, 1)), np.zeros(0, dtype=np.int64)
    return JobSpeed(nobody, np.ones((1, 1)), nobody.copy(), np.zeros((1, 1)), *types)


@entry_by_address
def schedule(stage: MachineContext, at_s: float, rank: int, row: int) -> None:
    """Schedule an event of a job; where the calendar is full, void events are removed first."""
    calendar = stage.calendar
    if calendar.many[0] == len(calendar.at_s):
        _forget_void(stage)
    note(calendar, at_s, rank, row)


@borrowing
def _forget_void(stage: MachineContext) -> None:
    """Remove the events of runs that are over; keep ends and steps of running jobs, and all other events."""
    calendar, life = stage.calendar, stage.life
    many, calendar.many[0] = calendar.many[0], 0
    for at in range(many):
        at_s, rank, serial = calendar.at_s[at], calendar.what[at] // SERIALS, calendar.what[at] % SERIALS
        if rank == END and life.due_s[serial] != at_s:
            continue
        if rank == STEP and life.state[serial] != RUNNING:
            continue
        if rank == BEGIN and life.begin_s[serial] != at_s:
            continue
        if rank == SAVED and life.saved_s[serial] != at_s:
            continue
        note(calendar, at_s, rank, serial)


@borrowing
def start(stage: MachineContext, row: int, count: int, now_s: float) -> None:
    """Start a pending job on the *count* nodes that ``find`` has just found."""
    take(stage.resources, stage.held, stage.requests, row, count)
    line_up_run(stage, row, now_s)
    run_on(stage, row, count, now_s)


@borrowing
def run_on(stage: MachineContext, row: int, count: int, now_s: float) -> None:
    """Let a pending job run on the *count* nodes that it has just taken."""
    life = stage.life
    life.spread[row] = max(life.spread[row], count)
    life.speed[row] = _speed_on(stage, row, count)
    set_out(stage, row, now_s)
    if stage.requests.slots[row]:
        life.joined[row] += update_speeds_of_sharers(stage, row, now_s)


@borrowing
def _speed_on(stage: MachineContext, row: int, nodes: int) -> float:
    table, by_type = stage.pace.by_nodes, stage.pace.by_type
    speed = table[stage.pace.kind[row], min(nodes, table.shape[1]) - 1]
    if by_type.shape[1] == 1:
        return float(speed)
    slowest = np.inf
    for at in range(nodes):
        node_type = stage.pace.node_type[stage.resources.room[CHOSEN, at]]
        slowest = min(slowest, by_type[stage.pace.type_kind[row], node_type])
    return float(speed * slowest)


@borrowing
def line_up_run(stage: MachineContext, row: int, now_s: float) -> None:
    """Enter a job that has its nodes among the running ones, by the end that is planned."""
    line_up(stage.running, row, _powered_up_s(stage, row, now_s) + stage.life.plan_s[row])


@borrowing
def _powered_up_s(stage: MachineContext, row: int, now_s: float) -> float:
    """Return when the nodes of a job have powered up; it starts only then (CONFIGURING)."""
    spot = stage.held.first[row]
    while spot != NONE:
        now_s = max(now_s, stage.ready_s[stage.held.links[NODE, spot]])
        spot = stage.held.links[NEXT, spot]
    return now_s


@borrowing
def set_out(stage: MachineContext, row: int, now_s: float) -> None:
    """Let a job that has its nodes begin to run, once they have powered up."""
    life, now_s = stage.life, _powered_up_s(stage, row, now_s)
    life.state[row] = RUNNING
    life.started_s[row] = now_s
    if np.isnan(life.first_s[row]):
        life.first_s[row] = now_s
    go_on(stage, row, now_s + stage.launch_s)


@entry_by_address
def go_on(stage: MachineContext, row: int, now_s: float) -> None:
    """Let a run continue from *now_s*."""
    life = stage.life
    life.since_s[row] = now_s
    life.due_s[row] = now_s + life.left_s[row] / life.speed[row]
    schedule(stage, life.due_s[row], END, row)


@entry_by_address
def pause(stage: MachineContext, row: int, now_s: float) -> None:
    """Account for the work of a run and suspend it; it keeps its nodes."""
    life = stage.life
    ran_s = max(0.0, now_s - life.since_s[row])
    life.ran_s[row] += ran_s
    life.left_s[row] = max(0.0, life.left_s[row] - ran_s * life.speed[row])
    life.due_s[row] = NEVER


@borrowing
def end(stage: MachineContext, row: int, now_s: float) -> None:
    """End a run; its nodes come free after the release time."""
    life = stage.life
    life.state[row] = COMPLETING
    life.left_s[row] = 0.0
    life.due_s[row], life.saved_s[row] = NEVER, NEVER
    life.ended_s[row] = now_s
    _leave(stage, row, now_s)


@borrowing
def send_back(stage: MachineContext, row: int, now_s: float, delay_s: float, restart_s: float) -> None:
    """End a run before its time and queue the job again, as scontrol requeue and the failure of a node do.

    It may not start for *delay_s*; starting again costs *restart_s*. Unless its work survives, all of it is lost.
    """
    life = stage.life
    if life.state[row] == RUNNING:
        pause(stage, row, now_s)
    if not life.keeps_work[row]:
        life.lost_s[row] += max(0.0, life.runtime_s[row] - life.left_s[row])
        life.left_s[row] = life.runtime_s[row]
    life.left_s[row] += restart_s
    life.state[row] = REQUEUED
    life.saved_s[row] = NEVER
    life.restarts[row] += 1
    life.submit_s[row] = now_s
    life.begin_s[row] = now_s + delay_s
    _leave(stage, row, now_s)


@entry_by_address
def save(stage: MachineContext, row: int, saved_s: float, now_s: float) -> None:
    """Let a run save its work until *saved_s*, without progress."""
    pause(stage, row, now_s)
    stage.life.since_s[row] = NEVER  # no work is done from here on
    stage.life.saved_s[row] = saved_s
    schedule(stage, saved_s, SAVED, row)


@borrowing
def stop(stage: MachineContext, row: int, now_s: float, restart_s: float) -> None:
    """Preempt a run: its nodes are free at once, its job waits and keeps its work; resuming costs *restart_s*."""
    pause(stage, row, now_s)
    stage.life.left_s[row] += restart_s
    stage.life.restarts[row] += 1
    stage.life.state[row] = REQUEUED
    end_sharing(stage, row, now_s)
    release(stage, row, now_s)


@borrowing
def _leave(stage: MachineContext, row: int, now_s: float) -> None:
    end_sharing(stage, row, now_s)
    if stage.release_s > 0:
        schedule(stage, now_s + stage.release_s, FREE, row)
    else:
        release(stage, row, now_s)


@borrowing
def share_slots(stage: MachineContext, row: int, other: int) -> bool:
    """Return True if two jobs that hold slots have slots of the same GPU."""
    if not stage.requests.slots[row] & stage.requests.slots[other]:
        return False
    held = stage.held
    return bool(held.links[NODE, held.first[row]] == held.links[NODE, held.first[other]])


@entry_by_address
def update_speeds_of_sharers(stage: MachineContext, row: int, now_s: float) -> int:
    """Update the speeds of a job with slots and of those beside it; return 1 if any runs beside it, else 0."""
    change_speed(stage, row, now_s)
    found = 0
    for at in range(stage.running.many[0]):
        other = stage.running.rows[at]
        if other != row and stage.life.state[other] == RUNNING and share_slots(stage, row, other):
            change_speed(stage, other, now_s)
            found = 1
    return found


@borrowing
def end_sharing(stage: MachineContext, row: int, now_s: float) -> None:
    """End the sharing of a job: its guests keep the GPUs they are on, and all run at their new speeds."""
    if stage.requests.slots[row]:
        update_speeds_of_sharers(stage, row, now_s)
        return
    life, links, host = stage.life, stage.held.links, stage.life.partner[row]
    if host != ALONE:
        life.partner[row] = ALONE
        life.guests[host] -= stage.requests.gpus[row]
        change_speed(stage, host, now_s)
    at = 0
    while life.guests[row] and at < stage.running.many[0]:
        guest = stage.running.rows[at]
        at += 1
        if life.partner[guest] != row:
            continue
        life.partner[guest] = ALONE
        life.guests[row] -= stage.requests.gpus[guest]
        links[GPUS, stage.held.first[guest]] += stage.requests.gpus[guest]
        links[GPUS, stage.held.first[row]] -= stage.requests.gpus[guest]
        change_speed(stage, guest, now_s)


@borrowing
def change_speed(stage: MachineContext, row: int, now_s: float) -> None:
    """Update the speed of a run on one node to the lowest that it has beside any job it shares GPUs with now."""
    life, pace, speed = stage.life, stage.pace, _speed_on(stage, row, 1)
    if life.state[row] != RUNNING:
        return
    if stage.requests.slots[row]:
        speed *= _least_beside(stage, row)
    elif life.partner[row] != ALONE:
        speed *= pace.beside[pace.profile[row], pace.profile[life.partner[row]]]
    elif life.guests[row]:
        least = 1.0
        for at in range(stage.running.many[0]):
            guest = stage.running.rows[at]
            if life.partner[guest] == row:
                least = min(least, pace.beside[pace.profile[row], pace.profile[guest]])
        speed *= least
    if speed != life.speed[row] and life.due_s[row] == NEVER:
        life.speed[row] = speed  # it saves its work
    elif speed != life.speed[row]:
        from_s = max(now_s, life.since_s[row])  # the work may not have begun yet
        pause(stage, row, now_s)
        life.speed[row] = speed
        go_on(stage, row, from_s)


@borrowing
def _least_beside(stage: MachineContext, row: int) -> float:
    """Return the lowest speed that a job with slots has beside any job that runs on its GPUs now; 1 alone."""
    pace, least = stage.pace, 1.0
    for at in range(stage.running.many[0]):
        other = stage.running.rows[at]
        if other != row and stage.life.state[other] == RUNNING and share_slots(stage, row, other):
            least = min(least, pace.beside[pace.profile[row], pace.profile[other]])
    return least


@borrowing
def release(stage: MachineContext, row: int, now_s: float) -> None:
    """Free the nodes of a run that is over."""
    life = stage.life
    ended_s = life.ended_s[row] if life.state[row] == COMPLETING else now_s
    note_run(stage.log, stage.held, row, life.started_s[row], ended_s)
    give_back(stage.resources, stage.held, stage.requests, row)
    drop_out(stage.running, row)
    stage.life.state[row] = COMPLETED if stage.life.state[row] == COMPLETING else PENDING


def validate(stage: MachineContext) -> None:
    """Raise AssertionError where the state of jobs contradicts itself, their allocations, or the calendar.

    Unlike here, a job of ``snapshot.resumed`` may run on nodes that are not known.
    """
    nodes.validate(stage.resources, stage.held, stage.requests)
    calendars.validate(stage.calendar)
    sorted_rows.validate(stage.running)
    state, running = stage.life.state, stage.running.rows[: stage.running.many[0]]
    holding = np.isin(state, (RUNNING, SUSPENDED, COMPLETING, REQUEUED))
    assert np.array_equal(np.sort(running), np.flatnonzero(holding)), "the line of running jobs is not those that run"
    assert np.array_equal(stage.held.first != nodes.NONE, holding), "the jobs that hold nodes are not those that run"
    _validate_ends(stage)
    _validate_sharing(stage)


def _validate_ends(stage: MachineContext) -> None:
    life, calendar, many = stage.life, stage.calendar, stage.calendar.many[0]
    runs = life.state == RUNNING
    assert runs[life.due_s < NEVER].all(), "a job that does not run has an end"
    at_s, rank, row = calendar.at_s[:many], calendar.what[:many] // SERIALS, calendar.what[:many] % SERIALS
    ends = row[rank == END]
    scheduled = np.zeros(len(runs), dtype=np.bool_)
    scheduled[ends[life.due_s[ends] == at_s[rank == END]]] = True
    saves = row[rank == SAVED]
    scheduled[saves[life.saved_s[saves] == at_s[rank == SAVED]]] = True
    assert scheduled[runs].all(), "the end of a running job is not in the calendar"
    assert (life.due_s[life.saved_s < NEVER] == NEVER).all(), "a job that saves its work has an end"


def _validate_sharing(stage: MachineContext) -> None:
    """Check that each running job holds its GPUs, or is counted as a guest on those of another."""
    life, gpus = stage.life, stage.requests.gpus
    runs, guests = np.isin(life.state, (RUNNING, SUSPENDED)), np.flatnonzero(life.partner != ALONE)
    hosts = life.partner[guests]
    assert runs[guests].all(), "a job that does not run is a guest"
    assert runs[hosts].all(), "a job that does not run has a guest"
    assert (life.partner[hosts] == ALONE).all(), "a guest has a guest"
    counted = np.bincount(hosts, weights=gpus[guests], minlength=len(gpus))
    assert (life.guests == counted).all(), "the number of GPUs with a guest is not that of the guests"
    assert (life.guests <= gpus).all(), "a GPU has two guests"
    owner = nodes.owners(stage.held)
    mine = owner != nodes.NONE
    held = np.bincount(owner[mine], weights=stage.held.links[GPUS, mine], minlength=len(gpus))
    assert (held == np.where(life.partner == ALONE, gpus, 0))[runs].all(), (
        "a running job holds not the GPUs it requests"
    )
