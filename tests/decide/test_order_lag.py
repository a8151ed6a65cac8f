"""How far the order that Slurm has lags behind the wanted one while thousands of jobs come and go."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from decide.views import NOW_S, jobs, view

from slurmsched.cluster.actions import Rank
from slurmsched.decide.rules import Rules
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide
from slurmsched.slurm.adapters.fake import FakeSlurm
from slurmsched.slurm.write.budget import Budget
from slurmsched.slurm.write.writer import CALM, LEAST, PATIENCE, Lag, Writer

SJF = find_ordering("sjf")
EVERY_S = 15.0
QUEUE = Rules(powers=frozenset({"order"}), scope="queue")
KINDS, USERS, STARTS = 200, 40, 20


@dataclass
class Cluster:
    """4,900 pending jobs; in each cycle the first 20 in Slurm's order start, and as many come."""

    rules: Rules
    moods: float = 0.0  #: share of the kinds of jobs whose forecast changes in each cycle
    fair: int = 0  #: how much a user's fair share changes in each cycle at most
    now_s: float = NOW_S
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    writer: Writer = field(default_factory=lambda: Writer(FakeSlurm(), Budget(20.0, 100)))
    left: list[int] = field(default_factory=list)  #: writes left for later, by cycle
    lag_s: list[float] = field(default_factory=list)
    right: list[int] = field(default_factory=list)  #: how many of the first 20 jobs are the wanted ones

    def __post_init__(self):
        self.runtime_s = self.random.lognormal(7, 1.5, KINDS)
        self.shares = self.random.integers(0, 10_000, USERS) if self.fair else np.zeros(USERS, dtype=np.int64)
        self.last, self.columns = 0, {}
        self.submit(4_900)

    def submit(self, count):
        new = {
            "job_id": np.arange(self.last + 1, self.last + count + 1),
            "kind": self.random.integers(0, KINDS, count),
            "noise": self.random.lognormal(0, 0.3, count),
            "user": self.random.integers(0, USERS, count),
            "born_s": np.full(count, self.now_s),
            "points": np.zeros(count, dtype=np.int64),
        }
        self.columns = {n: np.concatenate([self.columns.get(n, c[:0]), c]) for n, c in new.items()}
        self.last += count

    def cycle(self):
        own = self.columns
        base = 1000 + self.shares[own["user"]] + ((self.now_s - own["born_s"]) // 60).astype(np.int64)
        pending = jobs(len(base), job_id=own["job_id"], priority=base + own["points"], site_points=own["points"].copy())
        seen = replace(view(pending, self.runtime_s[own["kind"]] * own["noise"]), now_s=self.now_s)
        plan = decide(seen, SJF, replace(self.rules, window=self.writer.lag.window(self.rules.window)))
        wishes = [action for action in plan.actions if isinstance(action, Rank)]
        sent = self.writer.affordable(wishes, (), self.now_s)
        points = dict(zip(own["job_id"].tolist(), own["points"].tolist(), strict=True))
        points |= {action.job_id: action.points for action in sent}
        own["points"] = np.array(list(points.values()))
        order = np.lexsort((own["job_id"], -(base + own["points"])))
        self.left.append(len(wishes) - len(sent))
        self.lag_s.append(self.writer.lag.lag_s(self.now_s))
        self.right.append(len(set(order[:STARTS]) & set(np.flatnonzero(plan.jobs.rank < STARTS))))
        self.columns = {name: np.delete(column, order[:STARTS]) for name, column in own.items()}
        self.now_s += EVERY_S
        self.submit(STARTS)
        changed = self.random.random(KINDS) < self.moods
        self.runtime_s = np.where(changed, self.runtime_s * self.random.lognormal(0, 0.3, KINDS), self.runtime_s)
        self.shares = np.maximum(0, self.shares + self.random.integers(-self.fair, self.fair + 1, USERS))

    def cycles(self, count):
        for _ in range(count):
            self.cycle()
        return self


@pytest.mark.parametrize(
    ("rules", "fair"),
    [(QUEUE, 0), (QUEUE, 500), (replace(QUEUE, scope="points", max_points=1000), 0)],
    ids=["queue", "fair shares that change", "few points"],
)
def test_with_4900_waiting_the_order_is_complete_after_some_cycles_and_stays_so(rules, fair):
    cluster = Cluster(rules, fair=fair).cycles(60)
    assert cluster.left[0] > 0, "a cold start"
    late = cluster.left[8:]
    assert sum(count > 0 for count in late) <= len(late) // 4
    assert max(cluster.lag_s) <= 6 * EVERY_S
    assert min(cluster.right) == STARTS


def test_where_forecasts_change_faster_than_writes_go_out_the_lag_is_bounded_and_the_top_is_right():
    cluster = Cluster(QUEUE, moods=0.5).cycles(80)
    assert max(cluster.left) > 100
    assert max(cluster.lag_s) <= 12 * EVERY_S
    assert min(cluster.right) >= STARTS - 1
    assert cluster.writer.lag.window(500) < 500


def test_who_is_left_out_for_long_halves_the_window_and_calm_brings_it_back():
    lag = Lag()
    for cycle in range(PATIENCE + 1):
        assert lag.window(500) == 500
        lag.note([1, 2], cycle * EVERY_S)
    assert (lag.window(500), lag.lag_s(PATIENCE * EVERY_S)) == (250, PATIENCE * EVERY_S)
    for cycle in range(PATIENCE + 1, PATIENCE + 40):
        lag.note([2], cycle * EVERY_S)
    assert lag.window(500) == LEAST
    for _ in range(8 * CALM):
        lag.note([], 1000.0)
    assert (lag.window(500), lag.lag_s(1000.0)) == (500, 0.0)


def test_jobs_that_wait_in_turn_make_no_lag():
    lag = Lag()
    for cycle in range(50):
        lag.note([cycle], cycle * EVERY_S)
    assert (lag.window(500), lag.lag_s(49 * EVERY_S)) == (500, 0.0)


def test_a_window_smaller_than_the_least_stays_as_it_is():
    lag = Lag()
    for cycle in range(40):
        lag.note([1], cycle * EVERY_S)
    assert lag.window(5) == 5
