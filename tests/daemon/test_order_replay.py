"""The queue under the other order: what jobs wait more and less by ours, beside replays of the whole time."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from test_idle_harm import HOUR_S, Player, Site, look

from slurmsched.clock import ManualClock
from slurmsched.cluster.actions import Rank
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.forecast import Forecast
from slurmsched.cluster.plan import Standing
from slurmsched.cluster.state import View
from slurmsched.daemon.order_replay import EVERY_S, OrderReplay
from slurmsched.explain.freed_queue import FreedQueue, Would
from slurmsched.explain.other_queue import OtherQueue, place_words, started_words
from slurmsched.report.hour_names import REPLAY_JOBS, REPLAY_LONGER_S, REPLAY_SHORTER_S
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.simulated_cluster import SimulatedCluster
from slurmsched.simulator.slurmctld.multifactor import Weights
from slurmsched.simulator.slurmctld.slurmconf import SlurmConf
from slurmsched.simulator.workload.workload import workload

WITHOUT_FAIR_SHARE = SlurmConf(weights=Weights(fair_share=0.0))


class Orders(Player):
    """The play-forward where our order is in force, or Slurm's own."""

    def __init__(self, ours):
        self.ours, self.plays = ours, 0

    def in_force(self, mode):
        return self.ours

    def starts(self, queue):
        self.plays += 1
        return super().starts(queue)


class Ordered(Site):
    """A busy site on which short jobs get more points, where our order is in force."""

    def __init__(self, seed, error=0.0, *, days=1.0, load=0.9, points=None, conf=None, beat_s=60.0, every_s=EVERY_S):
        super().__init__(seed, error, days=days, load=load, holders=0)
        self.held_s, self.conf, self.beat_s, self.every_s = self.busy_s, conf or SlurmConf(), beat_s, every_s
        self.points = points or (lambda forecast_s: (1e8 / np.maximum(forecast_s, 1.0)).astype(np.int64))

    def wanted(self, pending):
        return self.points(self.forecast_s[pending.job_id - 1])

    def mean_wait_s(self, *, ordered):
        cluster = SimulatedCluster(self.jobs(self.held_s), self.fleet, self.conf)
        now_s = 0.0
        while not cluster.drained:
            now_s += self.beat_s
            cluster.advance(now_s)
            if ordered:
                self.rank(cluster)
        return float((cluster.model.stage.life.first_s - self.submit_s).mean())

    def rank(self, cluster):
        pending = cluster.observe().pending
        rows = zip(pending.job_id.tolist(), self.wanted(pending).tolist(), pending.site_points.tolist(), strict=True)
        cluster.act([Rank(job, points) for job, points, there in rows if points != there])

    def replay(self, *, ours):
        """What the daemon's part adds up where *ours* is in force, and else Slurm's, and the part."""
        cluster, clock, sums = SimulatedCluster(self.jobs(self.held_s), self.fleet, self.conf), ManualClock(), {}
        service = OrderReplay(
            Orders(ours), lambda news: sums.update({key: sums.get(key, 0) + news[key] for key in news}), clock
        )
        while not cluster.drained or service._other.later.waiting.any():
            for _ in range(round(self.every_s / self.beat_s)):
                clock.now_s += self.beat_s
                cluster.advance(clock.now_s)
                if ours:
                    self.rank(cluster)
            view = self.view(cluster, clock.now_s)
            standing = np.full(len(view.pending), int(Standing.RANKED))
            jobs = SimpleNamespace(points=self.wanted(view.pending), standing=standing)
            service.observe(
                SimpleNamespace(view=view, plan=SimpleNamespace(jobs=jobs), mode="act" if ours else "observe")
            )
            service._work()
        return sums, service

    def counted_s(self, *, ours):
        """The change of the mean wait by our order, as added up."""
        sums, _ = self.replay(ours=ours)
        of = {what: sum(v for key, v in sums.items() if key.what.startswith(what)) for what in
              (REPLAY_JOBS, REPLAY_LONGER_S, REPLAY_SHORTER_S)}  # fmt: skip
        return (of[REPLAY_LONGER_S] - of[REPLAY_SHORTER_S]) / of[REPLAY_JOBS]

    def known_s(self):
        return self.mean_wait_s(ordered=True) - self.mean_wait_s(ordered=False)


def share_counted(seeds, *, ours, days=0.5, **others):
    """What the daemon adds up at these sites together, as a part of what two replays of the whole time say."""
    counted, known = 0.0, 0.0
    for seed in seeds:
        site = Ordered(seed, days=days, load=1.2, **others)
        counted += site.counted_s(ours=ours) * len(site.gpus)
        known += site.known_s() * len(site.gpus)
    return counted / known


@pytest.mark.parametrize("ours", [True, False])
def test_where_both_orders_are_the_same_nothing_is_played_and_no_job_waits_more_or_less(ours):
    site = Ordered(3, days=0.1, points=lambda forecast_s: np.zeros(len(forecast_s), dtype=np.int64))
    sums, service = site.replay(ours=ours)
    assert {key.what.split(":")[0] for key in sums} == {REPLAY_JOBS}
    assert service._player.plays == 0


def test_what_is_added_up_at_one_site_is_of_the_size_that_two_replays_of_the_whole_time_say():
    every_s = 2 * EVERY_S
    assert 0.4 < share_counted((12,), ours=False, days=0.3, beat_s=every_s, every_s=every_s) < 1.6


@pytest.mark.soak
@pytest.mark.parametrize(
    ("ours", "conf", "least"), [(True, SlurmConf(), 0.6), (True, WITHOUT_FAIR_SHARE, 0.75), (False, SlurmConf(), 0.75)]
)
def test_what_is_added_up_over_six_sites_is_near_what_two_replays_of_the_whole_time_say_and_rather_low(
    ours, conf, least
):
    # When this was written it was 0.71, 0.87 and 0.91: fair share in the other order is not known.
    assert least < share_counted(range(11, 17), ours=ours, conf=conf) < 1.2


def test_ages_of_less_than_a_point_from_look_to_look_add_up():
    other = OtherQueue(base={(1, 0): 100, (2, 0): 100, (3, 0): 100})
    assert other.drift({(1, 0): 101, (2, 0): 100, (3, 0): 100, (4, 0): 900}) == pytest.approx(1 / 3)
    assert OtherQueue().drift({(1, 0): 101}) == 0.0


def test_a_job_that_came_and_started_between_two_looks_is_played_from_when_it_came():
    # Job 3 came after job 2, and started by our points as soon as job 1 had ended. Slurm alone would have let 2 run.
    service, _ = looked(((0, 1, 8), (0.9, 4, 8), (0.97, 4, 8)), {3: 10**6}, hours=0.95, after_s=0.0)
    cluster = SimulatedCluster(
        workload(
            3, job_id=np.arange(1, 4), submit_s=HOUR_S * np.array([0, 0.9, 0.97]), gpus=np.full(3, 8),
            runtime_s=HOUR_S * np.array([1.0, 4, 4]), time_limit_s=np.full(3, 1e6),
            user=Labels.of(["u1", "u2", "u3"]), account=Labels.of(["lab"] * 3),
        ),
        ClusterSpec.of(1, 8),
    )  # fmt: skip
    cluster.advance(0.98 * HOUR_S)
    cluster.act([Rank(3, 10**6)])
    cluster.advance(1.01 * HOUR_S)
    state = cluster.observe()
    span_s = np.array([1.0, 4, 4]) * HOUR_S

    def known(table):
        median_s = span_s[table.job_id - 1]
        return Forecast(median_s, median_s, median_s, Labels.of(["runs"] * len(table)))

    tables = state.pending, state.running, state.nodes, state.partitions, state.qos
    view = View(1.01 * HOUR_S, *tables, known(state.pending), known(state.running))
    assert view.running.job_id.tolist() == [3]
    many = len(view.pending)
    jobs = SimpleNamespace(points=np.zeros(many, np.int64), standing=np.full(many, int(Standing.RANKED)))
    service.look(view, SimpleNamespace(jobs=jobs), "act")
    other = service._other
    assert (other.later.jobs.job_id.tolist(), [key[0] for key in other.sooner.waiting]) == ([3], [2])


def looked(jobs, wanted, *, hours, after_s, mode="act"):
    """A part that looked twice at one node of 8 GPUs, the second time *after_s* later; *wanted* has points by job."""
    service = OrderReplay(Orders(mode == "act"), lambda news: None, ManualClock())
    views = [with_points(look(*jobs, after_s=hours * HOUR_S + more_s), wanted) for more_s in (0.0, after_s)]
    for view in views:
        points = np.array([wanted.get(job, 0) for job in view.pending.job_id.tolist()], dtype=np.int64)
        jobs_ = SimpleNamespace(points=points, standing=np.full(len(points), int(Standing.RANKED)))
        service.look(view, SimpleNamespace(jobs=jobs_), mode)
    return service, views[-1]


def with_points(view, wanted):
    """The view with our points in the priorities of its jobs."""

    def ordered(jobs):
        points = np.array([wanted.get(job, 0) for job in jobs.job_id.tolist()], dtype=np.int64)
        return jobs.changed(site_points=points, priority=jobs.priority + points)

    return replace(view, pending=ordered(view.pending), running=ordered(view.running))


def test_why_tells_where_a_job_would_be_by_now_by_slurms_priorities_alone():
    # Job 4 has our points. After job 1, Slurm alone would serve 2, then 3.
    jobs = ((0, 1, 8), (0.1, 4, 8), (0.2, 4, 8), (0.3, 4, 8))
    service, view = looked(jobs, {4: 10**6}, hours=0.9, after_s=180.0)
    assert view.pending.job_id.tolist() == [2, 3, 4]
    told = [service.place_words(view, view.pending.row_of(job)) for job in (2, 3, 4)]
    head = "Played forward by Slurm's own priorities alone for the last 3 min, it would stand in place"
    assert told == [f"{head} {place} of 3" for place in (1, 2, 3)]


def test_why_tells_of_a_job_that_would_run_by_now_since_when_and_the_next_one_moves_up():
    view = look((0, 10, 8), (0.1, 4, 8), (0.2, 4, 8), after_s=0.5 * HOUR_S)
    key = 2, int(view.pending.first_submit_s[0])
    sooner = FreedQueue(view.now_s, {key: (Would(view.now_s - 600.0, view.now_s - 600.0),)})
    other = OtherQueue(since_s=view.now_s - HOUR_S, sooner=sooner)
    assert place_words(other, view, 0).endswith("for the last 60 min, it would run by now, since 10 min")
    assert place_words(other, view, 1).endswith("it would stand in place 1 of 1")


def test_a_job_that_our_order_let_start_first_waits_by_replay_before_those_behind_it():
    # Slurm's own order is 2, 3; with our points 3 started when job 1 had ended.
    before = with_points(look((0, 1, 8), (0.1, 4, 8), (0.2, 4, 8), after_s=0.95 * HOUR_S), {3: 10**6})
    added = {}
    service = OrderReplay(Orders(True), added.update, ManualClock())

    def seen(view):
        many = len(view.pending)
        jobs = SimpleNamespace(points=np.zeros(many, np.int64), standing=np.full(many, int(Standing.RANKED)))
        service.look(view, SimpleNamespace(jobs=jobs), "act")

    seen(before)
    after = look((0, 1, 8), (0.1, 4, 8), (0.2, 4, 8), after_s=1.01 * HOUR_S)
    swapped = {2: 3, 3: 2}
    ids = [np.array([swapped.get(job, job) for job in jobs.job_id.tolist()]) for jobs in (after.pending, after.running)]
    first_s = dict(zip(before.pending.job_id.tolist(), before.pending.first_submit_s.tolist(), strict=True))
    tables = [
        jobs.changed(job_id=own, first_submit_s=np.array([first_s[job] for job in own.tolist()]))
        for jobs, own in zip((after.pending, after.running), ids, strict=True)
    ]
    seen(replace(after, pending=tables[0], running=tables[1]))
    assert (service._other.later.jobs.job_id.tolist(), len(service._other.sooner.waiting)) == ([3], 1)
    service._sums.send()
    sums = {key.what: value for key, value in added.items()}
    assert sums[f"{REPLAY_JOBS}:act"] == 1
    assert sums[f"{REPLAY_SHORTER_S}:act"] > 0
    last = replace(after, pending=tables[0], running=tables[1])
    told = service.started_words(last, last.running.row_of(3))
    assert told.startswith("Played forward by Slurm's own priorities alone, it would still wait, after ")


def test_story_tells_of_a_job_that_runs_when_it_would_have_started_by_slurms_priorities_alone():
    view = look((0, 10, 4), (0.1, 4, 4), after_s=0.5 * HOUR_S)
    key = 2, int(view.running.first_submit_s[1])
    sooner = FreedQueue(view.now_s, running={key: float(view.running.started_s[1]) - 600.0})
    other = OtherQueue(since_s=60.0, sooner=sooner)
    assert started_words(other, view, 0) == "", "it started before the first look"
    assert started_words(other, view, 1).endswith("it would have started 10 min earlier.")
    same = OtherQueue(since_s=60.0, sooner=FreedQueue(view.now_s))
    assert started_words(same, view, 1).endswith("it would have started at about the same time.")


def test_why_tells_nothing_before_the_first_look_nor_where_our_order_is_not_in_force():
    jobs = ((0, 1, 8), (0.1, 4, 8))
    view = look(*jobs, after_s=0.5 * HOUR_S)
    assert OrderReplay(Orders(True), lambda news: None, ManualClock()).place_words(view, 0) == ""
    service, view = looked(jobs, {}, hours=0.5, after_s=60.0, mode="observe")
    assert service.place_words(view, 0) == ""
