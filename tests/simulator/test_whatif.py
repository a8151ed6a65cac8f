"""What another policy or more nodes would do to a queue."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurmsched.cluster.columns import Labels
from slurmsched.cluster.forecast import Forecast
from slurmsched.cluster.jobs import JobState, job_table
from slurmsched.cluster.state import View
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import Rules
from slurmsched.errors import ConfigError
from slurmsched.foresee.snapshot import resumed
from slurmsched.foresee.whatif import (
    MOST_JOBS,
    Comparison,
    Option,
    compare,
    copies,
    simulated_tasks,
)
from slurmsched.policies.contract import find_ordering
from slurmsched.simulator.cluster_spec import ClusterSpec, nodes_of, partition_of
from slurmsched.simulator.workload.workload import workload

CONFIG = {"PriorityType": "priority/multifactor"}
NOW_S = 1_700_000_000.0


def policy(name: str) -> Policy:
    return Policy(find_ordering(name), Rules(powers=frozenset({"order"})))


AS_NOW, SJF = Option("as now"), Option("sjf", policy("sjf"))


def forecast(runtime_s: np.ndarray, source: str = "median of 3 runs of alice") -> Forecast:
    return Forecast(runtime_s, runtime_s, runtime_s, Labels.of([source] * len(runtime_s)))


def unsure(runtime_s: np.ndarray, factor: float) -> Forecast:
    """Forecasts that one job in ten falls below by *factor*, and one exceeds."""
    return replace(forecast(runtime_s), low_s=runtime_s / factor, high_s=runtime_s * factor)


def look(*runtimes_s: float, **columns: object) -> View:
    """Two nodes of 4 GPUs that are busy for another 1000 s; jobs of a whole node wait, the first of top priority."""
    count, nodes = len(runtimes_s), 2
    waiting = {
        "job_id": np.arange(10, 10 + count),
        "user": [f"user{number}" for number in range(count)],
        "gpus": np.full(count, 4),
        "priority": np.arange(100 + count, 100, -1),
        "time_limit_s": 2 * np.array(runtimes_s, dtype=float),
        "eligible_s": np.full(count, NOW_S),
        "partition": ["gpu"] * count,
        "reason": ["Priority"] * count,
    }
    pending = job_table(count, **(waiting | columns))
    running = job_table(
        nodes,
        job_id=[1, 2],
        gpus=[4, 4],
        partition=["gpu", "gpu"],
        state=[JobState.RUNNING] * nodes,
        started_s=[NOW_S - 500.0] * nodes,
        time_limit_s=[7200.0] * nodes,
        node_list=["n1", "n2"],
    )
    fleet = nodes_of(nodes, 4, partitions=["gpu"] * nodes, cpus=np.full(nodes, 64), gpus_used=np.full(nodes, 4))
    left = forecast(np.full(nodes, 1500.0))
    ours = forecast(np.array(runtimes_s, dtype=float))
    return View(NOW_S, pending, running, fleet, partition_of("gpu", "n[1-2]"), ClusterSpec.of(1, 1).qos, ours, left)


def asked(view: View, *options: Option) -> Comparison:
    return compare(view, CONFIG, [AS_NOW, *options], 15.0)


LONG_FIRST = (9000.0, 9000.0, 600.0, 600.0)


def test_as_now_the_jobs_start_in_slurms_order_when_those_that_run_end():
    row = asked(look(*LONG_FIRST)).rows[0]
    assert row.starts == 4
    assert row.mean_wait_s == pytest.approx((1000 + 1000 + 10000 + 10000) / 4, rel=0.02)
    assert row.median_wait_s == pytest.approx(5500, rel=0.02)
    assert row.mean_end_s == pytest.approx(row.mean_wait_s + 4800)
    assert row.last_end_s == pytest.approx(10600, rel=0.02)
    assert (row.sooner, row.later, row.worst_off) == (0, 0, ())


def test_the_gain_has_an_interval_over_the_drawn_runtimes():
    runtime_s = np.array([6000.0, 600.0] * 20)
    view = look(*runtime_s, time_limit_s=np.full(40, 1e6))
    sure, unsure_ = asked(view, SJF), asked(replace(view, forecast=unsure(runtime_s, 4.0)), SJF)
    assert (sure.draws, sure.rows[0].gain, unsure_.draws > 10) == (1, None, True)
    gains = [found.rows[1].gain for found in (sure, unsure_)]
    assert all(gain.low < gain.ratio < gain.high for gain in gains)
    assert gains[0].low > 1.2


def test_who_knows_the_runtimes_that_will_be_gains_more_than_who_knows_forecasts():
    runtime_s = np.full(12, 1200.0)
    view = look(*runtime_s, time_limit_s=np.full(12, 1e6))
    known = Option("ideal", policy("sjf"), exact=True)
    _, sjf, ideal = asked(replace(view, forecast=unsure(runtime_s, 6.0)), SJF, known).rows
    assert (sjf.gain.low, sjf.gain.high) == (1.0, 1.0)
    assert ideal.gain.low > sjf.gain.high


def test_points_under_a_cap_that_lifts_nobody_gain_nothing():
    view = look(*LONG_FIRST, priority=[4000, 3000, 2000, 1000])
    capped = Policy(find_ordering("sjf"), Rules(powers=frozenset({"order"}), scope="points", max_points=999))
    _, capped_row, free = asked(view, Option("capped", capped), SJF).rows
    assert capped_row.gain.ratio == 1.0
    assert free.gain.ratio > 1.0


def test_fair_share_goes_on_from_what_users_have_used():
    view = look(*[2000.0] * 2, user=["a", "b"], priority=[2001, 2000])
    view = replace(view, running=replace(view.running, user=Labels.of(["a", "a"])))
    config = CONFIG | {"PriorityWeightFairShare": "1000", "PriorityCalcPeriod": "00:01:00"}
    used = workload(2, user=["a", "b"], gpus=[8, 8], submit_s=[NOW_S - 1e6] * 2, runtime_s=[1e6] * 2)
    apart = []
    for past in (None, used):
        cluster = resumed(view, config, past=past)
        assert cluster.observe().pending.priority.tolist() == [2001, 2000]
        cluster.advance(NOW_S + 900.0)
        apart.append(int(np.ptp(cluster.observe().pending.priority)))
    assert apart[1] < 20 < 500 < apart[0]


def test_shortest_first_lets_the_short_start_sooner_and_says_whom_it_hurts():
    now, sjf = asked(look(*LONG_FIRST), SJF).rows
    assert sjf.mean_wait_s == pytest.approx((1000 + 1000 + 1600 + 1600) / 4, rel=0.05)
    assert sjf.mean_wait_s < now.mean_wait_s
    assert (sjf.sooner, sjf.later) == (2, 2)
    assert [(one.user, one.jobs) for one in sjf.worst_off] == [("user0", 1), ("user1", 1)]
    assert sjf.worst_off[0].wait_s == pytest.approx(600, abs=60)


def test_more_nodes_start_jobs_at_once():
    view = look(*LONG_FIRST)
    now, more = asked(view, Option("more", None, copies(view, 2))).rows
    assert more.mean_wait_s < 0.2 * now.mean_wait_s
    assert more.starts == 4


def test_more_nodes_go_with_a_policy_too():
    view = look(*LONG_FIRST, 9000.0, 600.0)
    nodes = copies(view, 1)
    ways = (SJF, Option("more", None, nodes), Option("sjf, more", policy("sjf"), nodes))
    now, sjf, more, both = (row.mean_wait_s for row in asked(view, *ways).rows)
    assert both < min(now, sjf, more)


def test_more_nodes_are_like_most_of_the_partition_that_most_jobs_ask_for():
    view = look(*LONG_FIRST)
    small = nodes_of(1, 1, name=["n9"], partitions=["gpu"])
    view = replace(view, nodes=view.nodes.joined(small))
    assert copies(view, 2).gpus.tolist() == [4, 4]
    assert copies(view, 2, "n9").gpus.tolist() == [1, 1]
    assert copies(view, 2).gpus_used.tolist() == [0, 0]
    assert not set(copies(view, 2).name) & set(view.nodes.name)
    with pytest.raises(ConfigError, match="no node 'n7'"):
        copies(view, 2, "n7")


def test_where_no_node_can_be_copied_one_has_to_be_named():
    view = look(*LONG_FIRST)
    with pytest.raises(ConfigError, match="--like"):
        copies(replace(view, nodes=replace(view.nodes, usable=np.zeros(2, dtype=bool))), 1)


def test_each_task_of_an_array_counts():
    found = asked(look(600.0, 600.0, tasks=[1, 5]), SJF)
    assert (found.queued, found.counted) == (6, 6)
    assert found.rows[0].last_end_s == pytest.approx(1000 + 3 * 600, rel=0.05)


def test_who_cannot_start_is_left_out_and_named():
    view = look(
        *[600.0] * 5,
        reason=["Priority", "JobHeldUser", "Dependency", "Priority", "JobHeldAdmin"],
        gpus=[4, 4, 4, 64, 4],
        tasks=[1, 1, 7, 1, 1],
    )
    found = asked(view, SJF)
    assert (found.queued, found.counted) == (11, 1)
    assert [(one.job_id, one.tasks, one.kind) for one in found.left_out] == [
        (11, 1, "held"),
        (12, 7, "blocked"),
        (14, 1, "held"),
        (13, 1, "unfit"),
    ]
    assert [one.why for one in found.left_out][:3] == ["JobHeldUser", "Dependency", "JobHeldAdmin"]


def test_nodes_that_slurm_does_not_show_are_named_first_and_jobs_that_need_them_are_not_called_unfit():
    view = look(600.0, 600.0, 600.0, gpus=[64, 4, 64], partition=["gpu", "gpu", "far"])
    more = partition_of("far", "").changed(unshown=Labels.of(["f[1-9]"]))
    hidden = replace(view, partitions=view.partitions.changed(unshown=Labels.of(["c[1-9]"])).joined(more))
    found = asked(hidden, SJF)
    assert [(one.job_id, one.kind) for one in found.left_out] == [(10, "unshown"), (12, "unshown")]
    assert found.assumed[0].startswith("Slurm does not show c[1-9],f[1-9] of gpu, far: they count for nothing here")
    assert asked(look(600.0), SJF).assumed == ()


def test_who_waits_for_nodes_that_are_down_or_kept_is_stuck_under_every_policy():
    view = look(600.0, 600.0, gpus=[8, 4], nodes=[2, 1])
    suspended = replace(view.running, state=np.array([JobState.SUSPENDED, JobState.RUNNING]))
    found = asked(replace(view, running=suspended), SJF)
    assert [(one.job_id, one.kind) for one in found.left_out] == [(10, "stuck")]
    assert [row.starts for row in found.rows] == [1, 1]
    assert found.suspended == 1


def test_only_jobs_that_start_under_every_option_are_compared():
    view = look(600.0, 600.0, gpus=[12, 4], nodes=[3, 1])
    found = asked(view, Option("more", None, copies(view, 1)))
    assert [row.starts for row in found.rows] == [1, 2]
    assert found.counted == 1
    assert [(one.job_id, one.kind) for one in found.left_out] == [(10, "unfit")]


def test_a_job_held_by_us_starts_when_the_hold_expires():
    view = look(600.0, held_by_us=[True], reason=["BeginTime"], eligible_s=[NOW_S + 5000.0])
    rows = asked(view, SJF).rows
    assert [row.mean_wait_s for row in rows] == pytest.approx([5000] * 2, abs=60)


def test_where_nobody_can_start_there_are_no_figures():
    found = asked(look(600.0, reason=["JobHeldUser"]), SJF)
    assert found.counted == 0
    assert all(row.starts == 0 and np.isnan(row.mean_wait_s) for row in found.rows)


def test_jobs_without_history_are_counted():
    view = look(600.0, 600.0)
    assert asked(view).guessed == 0
    assert asked(replace(view, forecast=forecast(np.full(2, 600.0), "no history: the time limit"))).guessed == 2


def test_the_tasks_of_the_largest_arrays_aresimulated_tasks():
    view = look(60.0, 60.0, 60.0, tasks=[3 * MOST_JOBS, 2 * MOST_JOBS, 5], reason=["Priority", "Priority", "Priority"])
    tasks = simulated_tasks(view.pending)
    assert tasks[2] == 5
    assert MOST_JOBS - 2 <= tasks.sum() <= MOST_JOBS
    assert abs(tasks[0] - tasks[1]) <= 1


def test_who_waits_is_told_before_the_first_play_and_before_each():
    events: list[object] = []
    sjf = find_ordering("sjf")

    def decides(view: View) -> np.ndarray:
        events.append("decides")
        return sjf.function(view)

    watched = Option("sjf", Policy(replace(sjf, function=decides), Rules(powers=frozenset({"order"}))))
    view = look(*LONG_FIRST)
    found = compare(view, CONFIG, [watched, AS_NOW], 15.0, progress=lambda done, total: events.append((done, total)))
    assert found.draws == 1
    assert events[:2] == [(0, 2), "decides"]
    assert [event for event in events if event != "decides"] == [(0, 2), (1, 2)]
