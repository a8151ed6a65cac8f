"""The replay of gangs of tasks in rounds: decisions by an ordering, at speeds that follow from what servers have left.

A job runs when each of its tasks has a whole GPU, at the speed of its slowest server. One that ends within a round
frees its GPUs at the next one.
"""

from __future__ import annotations

import math
from dataclasses import replace
from time import thread_time

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray
from ...cluster.forecast import Forecast
from ...cluster.state import View
from ...errors import ConfigError
from ...policies.compiled import compiled
from ...simulator.cluster_spec import PLENTY, ClusterSpec
from ...simulator.ordering_keys import all_pending
from ...simulator.replay import Replay
from ...simulator.run import forecast_of
from ...simulator.setup import TASK_PLACEMENTS, Setup
from ...simulator.task_outcome import TaskOutcome
from ...simulator.workload.workload import Workload
from .gang_view import GangView
from .learning import Learning
from .servers import NOWHERE, GangWork, Servers, first_end_s, load, overloaded, set_speeds, slowdown, train
from .task_flows import flows_of
from .task_moves import move
from .task_placement import PACK, put

ANEW_S = 300.0  #: time between two decisions in which running jobs may yield
GPU_CPUS = 8.0  #: CPUs of a server for each of its GPUs, where the cluster says nothing
LINK_B = 1.25e9  #: bytes a second of a server: 10 Gbit/s
OVERLOADED = 0.9  #: part of a resource above which a server is overloaded (h_r)
_CLOSE = 1e-6


def play_gangs(jobs: Workload, fleet: ClusterSpec, setup: Setup, *, check: bool = False) -> Replay:
    """Replay *jobs* as gangs of tasks under the ordering of *setup*.

    With *check*, AssertionError names what cannot have happened. ConfigError where the jobs have no tasks.
    """
    return _Gangs(jobs, fleet, setup).run(check)


class _Gangs:
    def __init__(self, jobs: Workload, fleet: ClusterSpec, setup: Setup) -> None:
        self._jobs, self._fleet, self._setup = jobs, fleet, setup
        nodes, count = fleet.nodes, len(jobs)
        cpus = np.where(nodes.cpus < PLENTY, nodes.cpus, GPU_CPUS * nodes.gpus).astype(np.float64)
        link_b = np.full(len(nodes), LINK_B)
        self._servers = Servers(nodes.gpus.copy(), cpus, link_b, nodes.gpus.copy(), np.zeros_like(cpus), 0 * link_b)
        self._flows = flows_of(jobs, setup.averaging)
        self._room = np.zeros((2, len(nodes)), dtype=np.int64)
        self._work = _no_work(jobs, int(self._flows.task[-1]))
        self._forecast: Forecast = forecast_of(jobs, setup, None)
        view = replace(all_pending(jobs, self._forecast), nodes=nodes)
        self._learning = Learning(jobs, view.pending, setup.load_control)
        # Each rule has its own: its jobs are mostly those of its last round, whose tables a view keeps.
        self._order_view, self._end_view = (
            GangView(view, self._learning.table, self._forecast, self._servers, self._work) for _ in range(2)
        )
        self._waiting, self._running = np.zeros((2, 0), dtype=np.int64)
        self._runs = np.zeros(count, dtype=np.bool_)
        self._start_s, self._spread = np.full(count, np.nan), np.zeros(count, dtype=np.int64)
        self._restarts, self._moved_s = np.zeros(count, dtype=np.int64), np.full(count, -np.inf)
        self._stopped = np.zeros(count, dtype=np.bool_)
        self._overloads, self._migrations = 0, 0
        self._decision_s: list[float] = []
        self._measure_alone()

    def _measure_alone(self) -> None:
        """Compute how much each job is slowed down by itself, on as few servers as can be."""
        servers, flows, work = self._servers, self._flows, self._work
        for row in range(len(self._jobs)):
            servers.free[:], servers.busy_cpus[:], servers.used_b[:] = servers.gpus, 0.0, 0.0
            put(PACK, servers, flows, work, row, OVERLOADED, *self._room)
            work.alone[row] = slowdown(servers, flows, work, row)
        work.server[:] = NOWHERE
        load(servers, flows, work, self._running)

    def run(self, check: bool) -> Replay:
        """Replay until every job has ended."""
        submit_s, round_s, come, now_s = self._jobs.submit_s, self._setup.beat_s, 0, 0.0
        while come < len(submit_s) or len(self._waiting) or len(self._running):
            last, come = come, int(np.searchsorted(submit_s, now_s, "right"))
            if come > last:
                self._waiting = np.concatenate([self._waiting, np.arange(last, come)])
            ended = self._end(now_s)
            moved = self._setup.migrate and self._migrate(now_s)
            changed = self._decide(now_s, come > last or ended)
            if ended or moved or changed:
                set_speeds(self._servers, self._flows, self._work, self._running)
                if check:
                    self._check_tasks()
            until_s = self._next_s(now_s, float(submit_s[come]) if come < len(submit_s) else math.inf)
            self._overloads += overloaded(self._servers, OVERLOADED) * round((until_s - now_s) / round_s)
            train(self._work, self._running, self._waiting, now_s, until_s)
            now_s = until_s
        if check:
            self._check_work()
        return self._replay()

    def _next_s(self, now_s: float, arrival_s: float) -> float:
        """Return the next round in which there may be something to do; now if nothing is left."""
        round_s, preempts = self._setup.beat_s, self._setup.selection == "preemptive"
        next_s = min(arrival_s, first_end_s(self._work, self._running, now_s))
        if preempts and len(self._waiting):
            next_s = min(next_s, (math.floor(now_s / ANEW_S) + 1) * ANEW_S)
        if (self._learning.stops or self._setup.migrate) and len(self._running):
            next_s = now_s + round_s
        if next_s < math.inf:
            return max(math.ceil(next_s / round_s), math.floor(now_s / round_s) + 1) * round_s
        if len(self._waiting):
            raise ConfigError(f"selection {self._setup.selection!r} starts none of the {len(self._waiting)} jobs left")
        return now_s

    def _end(self, now_s: float) -> bool:
        """Take out the jobs that ended, or may end now; return whether there are any."""
        work = self._work
        if self._learning.stops and len(self._running):
            rows = self._running[np.isnan(work.end_s[self._running])]
            self._learning.report(rows, self._part(rows))
            stops = rows[self._learning.may_end(self._seen(self._end_view, now_s, self._waiting, rows))]
            work.end_s[stops] = now_s
            self._stopped[stops] = True
        ended = work.end_s[self._running] <= now_s
        if not ended.any():
            return False
        self._take_away(self._running[ended])
        self._running = self._running[~ended]
        return True

    def _part(self, rows: IntArray) -> FloatArray:
        return np.asarray(self._work.done_s[rows] / self._jobs.runtime_s[rows])

    def _seen(self, view: GangView, now_s: float, waiting: IntArray, running: IntArray) -> View:
        rows = np.concatenate([running, waiting])
        reports = (self._work.ran_s[rows] // self._setup.beat_s).astype(np.int64)
        return view.of(now_s, waiting, running, self._learning.progress(rows, self._part(rows), reports))

    def _migrate(self, now_s: float) -> bool:
        terms = self._moved_s, self._jobs.average_b, now_s, self._setup.restart_s, OVERLOADED
        moves = int(move(self._servers, self._flows, self._work, self._running, *terms))
        self._migrations += moves
        return moves > 0

    def _decide(self, now_s: float, news: bool) -> bool:
        """Start jobs, and let running ones yield; return whether there was a decision."""
        waiting, gpus = self._waiting, self._jobs.gpus
        if not len(waiting):
            return False
        anew = self._setup.selection == "preemptive" and now_s % ANEW_S == 0
        free = int(self._servers.gpus.sum() - gpus[self._running].sum())
        if not anew and not (news and gpus[waiting].min() <= free):
            return False
        began_s = thread_time()
        if anew:  # running jobs stand in line again
            rows, seen = np.concatenate([self._running, waiting]), self._running[:0]
            free = int(self._servers.gpus.sum())
        else:
            rows, seen = waiting, self._running
        key = np.asarray(self._setup.ordering(self._seen(self._order_view, now_s, rows, seen)), dtype=np.float64)
        order = rows[np.lexsort((rows, ~self._runs[rows], key))]
        chosen = order[fits_in_turn(gpus[order], free, self._setup.selection == "strict")]
        runs = self._runs.copy() if not anew else np.zeros_like(self._runs)
        runs[chosen] = True
        yields = self._running[~runs[self._running]]
        self._take_away(yields)
        self._restarts[yields] += 1
        starts = chosen[~self._runs[chosen]]
        self._running = np.concatenate([self._running[runs[self._running]], starts])
        self._waiting = np.sort(np.concatenate([waiting[~runs[waiting]], yields]))
        self._start(now_s, starts)
        self._runs = runs
        self._decision_s.append(thread_time() - began_s)
        return True

    def _start(self, now_s: float, rows: IntArray) -> None:
        servers, flows, work, how = self._servers, self._flows, self._work, TASK_PLACEMENTS[self._setup.placement]
        load(servers, flows, work, self._running[: len(self._running) - len(rows)])
        for row in rows.tolist():
            spread = put(how, servers, flows, work, row, OVERLOADED, *self._room)
            self._spread[row] = max(self._spread[row], spread)
        again = ~np.isnan(self._start_s[rows])
        work.restart_s[rows[again]] = self._setup.restart_s
        self._start_s[rows[~again]] = now_s

    def _take_away(self, rows: IntArray) -> None:
        self._runs[rows] = False
        for row in rows.tolist():
            self._work.server[self._flows.task[row] : self._flows.task[row + 1]] = NOWHERE

    def _check_tasks(self) -> None:
        """Check that each task of a running job, and no other, has a GPU, and no server gives more than it has."""
        held, flows = self._work.server, self._flows
        placed = np.zeros(len(held), dtype=np.bool_)
        for row in self._running.tolist():
            placed[flows.task[row] : flows.task[row + 1]] = True
        assert ((held != NOWHERE) == placed).all(), "a task of a job that waits has a GPU, or one of a running job none"
        used = np.bincount(held[placed], minlength=len(self._servers.gpus))
        assert (used <= self._servers.gpus).all(), "a server has more tasks than GPUs"
        assert (used == self._servers.gpus - self._servers.free).all(), "free GPUs are miscounted"

    def _check_work(self) -> None:
        """Check that each job did its work in its time and order, and sent what its cuts allow."""
        work, jobs = self._work, self._jobs
        whole = ~self._stopped
        assert (np.abs(work.done_s - jobs.runtime_s)[whole] <= _CLOSE * jobs.runtime_s[whole]).all(), "work is left"
        assert (work.done_s <= jobs.runtime_s * (1 + _CLOSE)).all(), "a job did more than its work"
        assert (np.abs(work.credit_s - work.done_s) <= _CLOSE * (1 + work.done_s)).all(), "work is not speed times time"
        assert (self._start_s >= jobs.submit_s).all(), "a job began before it came"
        assert (work.ran_s <= work.end_s - self._start_s + _CLOSE).all(), "a job ran longer than from start to end"
        each_b = np.add.reduceat(np.append(self._flows.size_b, 0.0), self._flows.flow[:-1])
        each_b = np.where(np.diff(self._flows.flow) > 0, each_b, 0.0) / self._flows.iteration_s
        most_b = each_b * work.done_s * (1 + _CLOSE) + self._migrations * jobs.average_b
        assert (work.sent_b <= most_b).all(), "a job sent more than its tasks have to"
        assert (work.sent_b[(self._spread == 1) & (self._migrations == 0)] == 0).all(), "a job on one server sent bytes"

    def _replay(self) -> Replay:
        work, jobs = self._work, self._jobs
        return Replay(
            self._setup,
            self._fleet,
            jobs,
            self._start_s,
            work.end_s.copy(),
            self._spread,
            self._restarts,
            self._forecast.runtime_s,
            served_gpu_s=work.ran_s * jobs.gpus,
            tasks=TaskOutcome(
                work.done_s / jobs.runtime_s,
                np.where(work.end_s <= jobs.deadline_s, work.done_s, work.by_deadline_s) / jobs.runtime_s,
                work.reached_s.copy(),
                self._stopped,
                work.sent_b.copy(),
                self._overloads,
                self._migrations,
                np.array(self._decision_s) * 1000.0,
            ),
        )


@compiled
def fits_in_turn(gpus: IntArray, free: int, strict: bool) -> BoolArray:
    """Select the jobs that get GPUs in turn; if *strict*, nothing passes one that does not fit."""
    fits = np.zeros(len(gpus), dtype=np.bool_)
    for at in range(len(gpus)):
        if gpus[at] <= free:
            fits[at] = True
            free -= gpus[at]
        elif strict:
            break
        if not free:
            break
    return fits


def _no_work(jobs: Workload, tasks: int) -> GangWork:
    count = len(jobs)
    part = np.minimum(jobs.converges_at, 1.0)
    return GangWork(
        server=np.full(tasks, NOWHERE),
        goal_s=jobs.runtime_s.copy(),
        required_s=part * jobs.runtime_s,
        deadline_s=jobs.deadline_s.copy(),
        done_s=np.zeros(count),
        speed=np.zeros(count),
        alone=np.ones(count),
        cut_b=np.zeros(count),
        restart_s=np.zeros(count),
        ran_s=np.zeros(count),
        lost_s=np.zeros(count),
        credit_s=np.zeros(count),
        sent_b=np.zeros(count),
        by_deadline_s=np.full(count, np.nan),
        reached_s=np.full(count, np.nan),
        end_s=np.full(count, np.nan),
    )
