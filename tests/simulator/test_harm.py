from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulator.worlds import simulate

from examples import examples
from slurmsched.errors import ConfigError
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.replay import Replay
from slurmsched.simulator.report.harm import SHOWN, WORSE, Harm, baseline_of, harm
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.workload.workload import Workload, workload


def trace(*jobs: tuple[str, float, float], vcs: list[str] | None = None) -> Workload:
    """Jobs that take the whole cluster, as (user, submit, runtime), by submit."""
    columns = {} if vcs is None else {"partition": vcs}
    return workload(
        len(jobs),
        job_id=np.arange(1, len(jobs) + 1),
        user=[user for user, _, _ in jobs],
        submit_s=[submit for _, submit, _ in jobs],
        runtime_s=[runtime for _, _, runtime in jobs],
        gpus=np.full(len(jobs), 4),
        **columns,
    )


def played(jobs: Workload, name: str) -> Replay:
    return simulate(jobs, ClusterSpec.of(1, 4), Setup.of(name))


def compared(jobs: Workload) -> Harm:
    return harm(played(jobs, "sjf"), played(jobs, "fifo"))


def test_shortest_first_harms_the_user_with_the_long_job_and_helps_the_other():
    # fifo ends at 10, 110, 115; sjf at 10, 115, 15
    users = compared(trace(("ada", 0, 10), ("ben", 0, 100), ("cleo", 0, 5))).users
    assert users is not None
    worst, best = users.worst[0], users.best[0]
    assert (worst.name, worst.jobs, worst.baseline_jct_s, worst.jct_s) == ("ada", 1, 10, 15)
    assert worst.ratio == pytest.approx(1.5)
    assert (best.name, best.ratio) == ("cleo", pytest.approx(5 / 115))
    assert (users.count, users.worse) == (3, 1), "ben's 115 s after 110 s is within the 10 % that are nobody's harm"


def test_means_are_over_all_jobs_of_a_user():
    users = compared(trace(("ada", 0, 10), ("ada", 0, 100), ("ada", 0, 5))).users
    assert users is not None
    assert users.worst == users.best
    assert users.worst[0].jobs == 3
    assert users.worst[0].baseline_jct_s == pytest.approx((10 + 110 + 115) / 3)
    assert users.worst[0].jct_s == pytest.approx((5 + 15 + 115) / 3)


def test_virtual_clusters_are_compared_like_users():
    found = compared(trace(("", 0, 10), ("", 0, 5), vcs=["vision", "speech"]))
    assert found.virtual_clusters is not None
    assert [change.name for change in found.virtual_clusters.worst] == ["vision", "speech"]
    assert found.users is None, "a trace without users has no table of them"


def test_jobs_without_a_user_are_left_out_where_others_have_one():
    users = compared(trace(("", 0, 10), ("ada", 0, 5))).users
    assert users is not None
    assert [change.name for change in users.worst] == ["ada"]


def test_no_more_than_the_ten_worst_are_named_and_all_are_counted():
    users = compared(trace(*((f"u{number}", 0, 100 - number) for number in range(30)))).users
    assert users is not None
    assert (users.count, len(users.worst), len(users.best)) == (30, SHOWN, SHOWN)
    ratios = [change.ratio for change in users.worst]
    assert ratios == sorted(ratios, reverse=True)


def test_beside_itself_nobody_is_harmed():
    jobs = trace(("ada", 0, 10), ("ben", 0, 5))
    users = harm(played(jobs, "fifo"), played(jobs, "fifo")).users
    assert users is not None
    assert (users.worse, {change.ratio for change in users.worst}) == (0, {1.0})


def test_replays_of_different_jobs_are_not_compared():
    one, other = trace(("ada", 0, 10)), trace(("ada", 3, 10))
    with pytest.raises(ConfigError, match="sjf and fifo cannot be compared: they replayed different jobs"):
        harm(played(one, "sjf"), played(other, "fifo"))


def test_the_baseline_is_stock_slurm_where_it_is_there_and_else_the_first():
    setups = [Setup.of("fifo"), Setup.of("sjf"), Setup.of("slurm")]
    assert baseline_of(setups) == 2
    assert baseline_of(setups[:2]) == 0


def test_an_empty_trace_harms_nobody():
    assert asdict(compared(trace())) == {"baseline": "fifo", "users": None, "virtual_clusters": None}


@examples(50)
@given(st.lists(st.tuples(st.sampled_from("abcd"), st.just(0.0), st.integers(1, 50).map(float)), min_size=1))
def test_the_changes_are_those_of_the_means_user_by_user(rows):
    jobs = trace(*rows)
    fifo, sjf = played(jobs, "fifo"), played(jobs, "sjf")
    users = harm(sjf, fifo).users
    assert users is not None
    owner = np.array([user for user, _, _ in rows])
    for change in users.worst:
        mine = owner == change.name
        assert change.ratio == pytest.approx(sjf.end_s[mine].mean() / fifo.end_s[mine].mean())
    assert users.worse == sum(change.ratio > WORSE for change in users.worst)
