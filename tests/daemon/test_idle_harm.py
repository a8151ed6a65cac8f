"""GPUs that run nothing: who holds them, who waits for them, and the sums beside a replay in which they were free."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from slurmsched.clock import ManualClock
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.forecast import Forecast
from slurmsched.cluster.jobs import job_table
from slurmsched.cluster.plan import Standing
from slurmsched.cluster.records.profiles import NodeProfile
from slurmsched.cluster.records.scope import Scope
from slurmsched.cluster.state import View
from slurmsched.daemon.idle.idle_book import IdleBook
from slurmsched.daemon.idle.idle_service import EVERY_S, IdleService
from slurmsched.db.store import Store
from slurmsched.errors import MemoryUnavailable, SlurmschedError
from slurmsched.explain.freed_queue import FreedQueue, IdleHold, Queue, Would, as_it_is, freed
from slurmsched.foresee.predict_completion import predict_completion
from slurmsched.report.hour_names import IDLE_WAIT_GPU_S
from slurmsched.report.idle import idle_harm
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.simulated_cluster import SimulatedCluster
from slurmsched.simulator.workload.workload import Workload, workload

HOUR_S = 3600.0
NODES, GPUS = 4, 8
KNOWN_S = 1800.0  #: after its last process a GPU counts as held idle


class Player:
    """The play-forward of the daemon, in this process, in Slurm's own order."""

    trouble = ""

    def order(self, view, plan, mode):
        count = len(view.pending)
        ranked = np.full(count, int(Standing.RANKED))
        return Queue(view, np.full(count, -1), ranked, None, np.arange(count), np.full(count, -1))

    def starts(self, queue):
        if self.trouble:
            raise SlurmschedError(self.trouble)
        table = predict_completion(queue.view, queue.rank, queue.standing, {}, queue.delayed_until_s)
        return table.start_s[: len(queue.row)]

    def close(self):
        pass


class Site:
    """A busy site some of whose jobs hold whole nodes for hours after their last process; *error* of its forecasts."""

    def __init__(self, seed, error, *, days=1.0, load=0.93, holders=2):
        random = np.random.default_rng(seed)
        gpus, busy_s, work = [], [], 0.0
        while work < load * days * 24 * HOUR_S * NODES * GPUS:
            gpus.append(int(random.choice([1, 2, 4, 8], p=(0.5, 0.2, 0.15, 0.15))))
            busy_s.append(float(np.clip(random.lognormal(np.log(HOUR_S)), 60, 8 * HOUR_S)))
            work += gpus[-1] * busy_s[-1]
        self.submit_s = np.sort(random.uniform(0, days * 24 * HOUR_S, len(gpus)))
        self.holders = np.searchsorted(self.submit_s, np.linspace(2, 24 * days - 16, holders) * HOUR_S)
        self.gpus, self.busy_s = np.array(gpus), np.array(busy_s)
        self.gpus[self.holders], self.busy_s[self.holders] = 8, HOUR_S
        self.held_s = self.busy_s.copy()
        self.held_s[self.holders] = random.uniform(7, 12, holders) * HOUR_S
        self.forecast_s = self.held_s * random.lognormal(0.0, error, len(gpus))
        self.fleet = ClusterSpec.of(NODES, GPUS)

    def jobs(self, runtime_s) -> Workload:
        count = len(self.gpus)
        return workload(
            count, job_id=np.arange(1, count + 1), submit_s=self.submit_s, gpus=self.gpus, runtime_s=runtime_s,
            time_limit_s=np.full(count, 24 * HOUR_S), account=Labels.of(f"a{row % 3}" for row in range(count)),
            user=Labels.of(f"u{row % 7}" for row in range(count)),
        )  # fmt: skip

    def waits_s(self, runtime_s):
        cluster = SimulatedCluster(self.jobs(runtime_s), self.fleet)
        cluster.advance(np.inf)
        return cluster.model.stage.life.first_s - self.submit_s

    def replayed_gpu_hours(self):
        """What jobs waited less where holders gave their GPUs back half an hour after their last process."""
        until_s = np.where(self.held_s > self.busy_s, np.minimum(self.busy_s + KNOWN_S, self.held_s), self.busy_s)
        return float(((self.waits_s(self.held_s) - self.waits_s(until_s)) * self.gpus).sum()) / HOUR_S

    def counted_gpu_hours(self, every_s=EVERY_S):
        """What the daemon's part counts, looking at the cluster every five minutes, or more seldom."""
        cluster, book, clock = SimulatedCluster(self.jobs(self.held_s), self.fleet), IdleBook(), ManualClock()
        sums = {}
        service = IdleService(
            book, Player(), lambda news: sums.update({key: sums.get(key, 0) + news[key] for key in news}), clock
        )
        while not cluster.drained:
            clock.now_s += every_s
            cluster.advance(clock.now_s)
            view = self.view(cluster, clock.now_s)
            self.tell(book, view)
            service.observe(SimpleNamespace(view=view, plan=None, mode="observe"))
            if service._due():
                service._work()
        return sum(value for counted, value in sums.items() if counted.what == IDLE_WAIT_GPU_S) / HOUR_S

    def view(self, cluster, now_s):
        state = cluster.observe()

        def forecast(jobs):
            median_s = self.forecast_s[jobs.job_id - 1]
            return Forecast(median_s, median_s / 2, median_s * 2, Labels.of(["runs"] * len(jobs)))

        tables = state.pending, state.running, state.nodes, state.partitions, state.qos
        return View(now_s, *tables, forecast(state.pending), forecast(state.running))

    def tell(self, book, view):
        for row in self.holders.tolist():
            place = view.running.row_of(row + 1)
            if place is not None:
                last_s = float(view.running.started_s[place]) + self.busy_s[row]
                if view.now_s > last_s + KNOWN_S:
                    book.take(profile(row + 1, int(view.now_s), 8, last_s))


def profile(job_id, end_s, idle_gpus, since_s, node="n1", restart=0):
    return NodeProfile(job_id, restart, node, 0, end_s, 8, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0,
                       idle_gpus=float(idle_gpus), idle_since_s=since_s)  # fmt: skip


def test_a_site_without_idle_gpus_costs_nobody_anything():
    site = Site(1, 0.3, days=0.15, holders=0)
    assert site.counted_gpu_hours() == 0.0


def look(*jobs, after_s=3 * HOUR_S):
    """One node of 8 GPUs after some hours; job N is (submitted at, hours, GPUs)."""
    rows = dict(zip(("submit_s", "runtime_s", "gpus"), map(list, zip(*jobs, strict=True)), strict=True))
    rows["submit_s"], rows["runtime_s"] = ([HOUR_S * one for one in rows[name]] for name in ("submit_s", "runtime_s"))
    many = len(jobs)
    site = workload(
        many, job_id=np.arange(1, many + 1), time_limit_s=np.full(many, 1e6), **rows, account=Labels.of(["lab"] * many),
        user=Labels.of(f"u{number}" for number in range(1, many + 1)),
    )  # fmt: skip
    cluster = SimulatedCluster(site, ClusterSpec.of(1, 8))
    cluster.advance(after_s)
    state = cluster.observe()

    def known(table):
        span_s = np.array(rows["runtime_s"])[table.job_id - 1]
        return Forecast(span_s, span_s, span_s, Labels.of(["runs"] * len(table)))

    tables = state.pending, state.running, state.nodes, state.partitions, state.qos
    return View(after_s, *tables, known(state.pending), known(state.running))


def hold(job_id=1, gpus=8, since_s=HOUR_S):
    return IdleHold(job_id, f"u{job_id}", "lab", "", gpus, since_s)


def starts(view, holds=(), would=None):
    """When each job starts, in hours from now: jobs that would run by now are left out."""
    player = Player()
    asked = player.order(view, None, "observe")
    played = as_it_is(asked) if would is None else freed(asked, holds, would)
    found = {}
    for at, start_s in enumerate(player.starts(played).tolist()):
        if played.ahead[at] < 0:
            found.setdefault(int(played.view.pending.job_id[at]), []).append(round((start_s - view.now_s) / HOUR_S, 1))
    return found


def test_without_the_idle_gpus_the_next_job_starts_now():
    view = look((0, 10, 8), (1, 2, 8), (2, 2, 8))
    assert starts(view) == {2: [7.0], 3: [9.0]}
    assert starts(view, [hold()], FreedQueue()) == {2: [0.0], 3: [2.0]}


def test_a_job_that_uses_some_of_its_gpus_keeps_these():
    view = look((0, 10, 8), (1, 2, 4), (2, 2, 8))
    assert starts(view, [hold(gpus=4)], FreedQueue()) == {2: [0.0], 3: [7.0]}


def test_a_job_that_would_run_by_now_needs_what_is_left_and_one_that_would_have_ended_is_gone():
    view = look((0, 10, 8), (1, 2, 8), (2, 2, 8))
    submit_s = int(view.pending.first_submit_s[0])
    one_hour_ago = FreedQueue(view.now_s, {(2, submit_s): (Would(view.now_s - HOUR_S, 0.0),)})
    assert starts(view, [hold()], one_hour_ago) == {3: [1.0]}
    long_ago = FreedQueue(view.now_s, {(2, submit_s): (Would(view.now_s - 2 * HOUR_S, 0.0),)})
    assert starts(view, [hold()], long_ago) == {3: [0.0]}


def test_a_job_that_runs_and_would_have_begun_before_ends_sooner():
    view = look((0, 4, 8), (1, 2, 8))
    began = FreedQueue(view.now_s, running={(1, int(view.running.first_submit_s[0])): -0.5 * HOUR_S})
    assert starts(view, (), began) == {2: [0.5]}


def test_waiting_tasks_of_an_array_are_played_one_by_one():
    view = look((0, 10, 8), (1, 2, 4))
    tasks = view.pending.changed(tasks=np.array([3]))
    view = replace(view, pending=tasks)
    assert starts(view, [hold()], FreedQueue()) == {2: [0.0, 0.0, 2.0]}
    some = FreedQueue(view.now_s, {(2, int(view.pending.first_submit_s[0])): (Would(view.now_s - HOUR_S, 0.0),)})
    assert starts(view, [hold()], some) == {2: [0.0, 1.0]}


def test_what_a_job_waited_counts_until_it_starts_and_nothing_after_it_is_gone():
    view = look((0, 10, 8), (1, 2, 8), (2, 2, 8))
    key = (2, int(view.pending.first_submit_s[0]))
    would = FreedQueue(
        view.now_s - 300.0, {key: (Would(view.now_s - 200.0, view.now_s - 200.0),)}, known=frozenset({(1, 0)})
    )
    after, waited = would.seen(view)
    assert [(one.job_id, one.gpus, one.seconds, one.first) for one in waited] == [(2, 8, 200.0, True)]
    assert (after.at_s, dict(after.waiting)) == (view.now_s, {key: (Would(view.now_s - 200.0, view.now_s - 200.0),)})
    later = look((0, 10, 8), (1, 2, 8), (2, 2, 8), after_s=11 * HOUR_S)
    after, (waited,) = after.seen(later)
    assert waited.seconds == pytest.approx(float(later.running.started_s[0]) - view.now_s)
    assert (dict(after.waiting), dict(after.running)) == ({}, {key: view.now_s - 200.0})
    cancelled = FreedQueue(view.now_s, {(99, 0): (Would(view.now_s, view.now_s),)})
    assert cancelled.seen(later)[1] == []


def running(*ids, restarts=0):
    return job_table(len(ids), job_id=list(ids), user=["zoe"] * len(ids), account=["lab"] * len(ids),
                     restarts=[restarts] * len(ids))  # fmt: skip


def test_the_book_knows_the_idle_gpus_of_running_jobs_by_the_last_word_of_each_node():
    book = IdleBook()
    for one in (profile(7, 3000, 4, 1000.0), profile(7, 3100, 2, 900.0, node="n2"), profile(8, 3000, 1, 100.0)):
        book.take(one)
    book.take(profile(8, 4000, 0, np.nan))
    assert book.holds(running(7, 8)) == [IdleHold(7, "zoe", "lab", "", 6, 1000.0)]
    assert book.holds(running(7, restarts=1)) == []
    assert book.holds(running(7)) == [], "its records were of an earlier run"


def test_the_book_asks_the_database_once_and_again_where_that_is_away():
    asked = []

    def earlier():
        asked.append(1)
        if len(asked) == 1:
            raise MemoryUnavailable("away")
        return [profile(7, 3000, 4, 1000.0)]

    book = IdleBook(earlier)
    assert book.holds(running(7)) == []
    assert [one.gpus for one in book.holds(running(7))] == [4]
    assert [one.gpus for one in book.holds(running(7))] == [4]
    assert len(asked) == 2


def test_the_database_remembers_idle_gpus_and_the_sums_of_hours(tmp_path):
    store, player = Store(f"sqlite:///{tmp_path}/later.db"), Player()
    view, clock, told = look((0, 10, 8), (1, 2, 8)), ManualClock(), []
    book = IdleBook(lambda: store.idle_nodes("c", 0.0))
    service = IdleService(book, player, lambda news: store.add_hours("c", news), clock, lambda *one: told.append(one))
    report = SimpleNamespace(view=view, plan=None, mode="observe")
    service.observe(report)
    assert not service._due(), "no GPU is idle"
    store.upgrade()
    store.add_profiles("c", [profile(1, int(view.now_s), 8, HOUR_S), profile(3, 10, 0, np.nan)])
    service.observe(report)
    assert service._due()
    service._work()
    (delayed,) = service.latest().delayed
    assert (delayed.job_id, delayed.start_s - delayed.start_if_free_s) == (2, pytest.approx(7 * HOUR_S))
    assert [(one.user, one.gpus) for one in service.latest().holds] == [("u1", 8)]
    clock.now_s = 300.0
    later = look((0, 10, 8), (1, 2, 8), after_s=view.now_s + 300.0)
    service.observe(SimpleNamespace(view=later, plan=None, mode="observe"))
    player.trouble = "the play-forward failed"
    with pytest.raises(SlurmschedError):
        service._work()
    player.trouble, clock.now_s = "", 600.0
    service._work()
    table = store.report_rows("c", 0.0, 2e9, Scope()).hours
    harm = idle_harm(table)
    assert (harm["jobs"], harm["waited"] * HOUR_S, harm["waited_gpus"] * HOUR_S) == (1, 300.0, 2400.0)
    assert harm["holders"] == [{"account": "lab", "user": "u1", "held": pytest.approx(8 * (900.0 + 300.0) / HOUR_S)}]
    assert told[-1] == (8, 1, 0.0)
    assert service.latest().waited_gpu_hours == pytest.approx(2400.0 / HOUR_S)
    store.close()


def share_counted(seeds, error, every_s=EVERY_S, **known):
    """What the daemon counts at these sites together, as a part of what the replay says."""
    counted, replayed = 0.0, 0.0
    for seed in seeds:
        site = Site(seed, error, **known)
        counted += site.counted_gpu_hours(every_s)
        replayed += site.replayed_gpu_hours()
    return counted / replayed


def test_what_is_counted_at_one_site_is_of_the_size_that_a_replay_with_these_gpus_free_says():
    # A queue that differs once goes its own way, and jobs that will hold idle GPUs themselves are played with all of
    # their runtime: at single sites of a day it was between 0.6 and 1.6.
    assert 0.5 < share_counted((102,), 0.3, 2 * EVERY_S, days=0.5, holders=1) < 1.7


@pytest.mark.soak
@pytest.mark.parametrize("error", [0.0, 0.3])
def test_what_is_counted_over_twelve_sites_is_within_20_percent_of_a_replay_with_these_gpus_free(error):
    assert share_counted(range(401, 413), error) == pytest.approx(1.0, abs=0.2)
