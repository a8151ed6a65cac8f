"""The rules for the present load."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from decide.views import nodes

from slurmsched.cluster.columns import Labels
from slurmsched.decide.policy import Policy
from slurmsched.decide.present_load import busy_share, follows_load, under_load
from slurmsched.decide.profiling_nodes import pressure
from slurmsched.decide.rules import ProfilingRules, Rules, SharingRules
from slurmsched.models.throughput import LoadOutlook
from slurmsched.policies.contract import find_ordering
from slurmsched.policies.sharing_candidates import APATHETIC, INDOLENT, OFF

FIFO = find_ordering("fifo")
PLAIN = Policy(FIFO, Rules())
SHARED = Policy(FIFO, Rules(sharing=SharingRules()))
PROFILED = Policy(FIFO, Rules(profiling=ProfilingRules("profile", n_least=2, home="gpu")))
QUIET = LoadOutlook(now=5.0, ahead=4.0, rank=0.5)
RISING = LoadOutlook(now=5.0, ahead=6.0, rank=0.5)
BURST = LoadOutlook(now=9.0, ahead=9.0, rank=0.9)
NODES = replace(nodes((4, 4)), partitions=Labels.of(["gpu", "shared"]), gpus_used=np.array([1, 4]))


@pytest.mark.parametrize(
    ("busy", "outlook", "mode"),
    [
        (0.25, None, INDOLENT),
        (0.25, QUIET, OFF),
        (0.25, RISING, APATHETIC),
        (1.0, QUIET, INDOLENT),
    ],
)
def test_the_mode_of_sharing_follows_free_gpus_and_the_forecast_of_submissions(busy, outlook, mode):
    outlooks = {} if outlook is None else {"jobs": outlook, "gpus": outlook}
    assert under_load(SHARED, outlooks, busy).rules.sharing.capacity == mode


def test_where_nobody_shares_the_mode_stays():
    off = replace(SHARED, rules=Rules(sharing=SharingRules(capacity=OFF)))
    assert under_load(off, {"jobs": RISING}, 0.0) is off
    assert not follows_load(off.rules)


def test_a_burst_lowers_the_limits_of_profiling_within_their_bounds():
    assert under_load(PROFILED, {"jobs": QUIET, "gpus": QUIET}, 1.0) == PROFILED
    hurried = under_load(PROFILED, {"jobs": QUIET, "gpus": BURST}, 1.0).rules.profiling
    assert (hurried.n_max, hurried.t_s, hurried.pressure) == (5, 130.0, 0.5)
    assert pressure({"jobs": BURST, "gpus": QUIET}) == 0.5, "of two series the one under more pressure counts"


def test_without_sharing_and_profiling_nothing_changes():
    assert under_load(PLAIN, {"jobs": BURST}, 0.0) is PLAIN
    assert not follows_load(PLAIN.rules)


def test_nodes_that_share_do_not_count_as_busy():
    assert busy_share(NODES, SHARED.rules) == 0.25
    down = replace(NODES, usable=np.array([False, True]))
    assert busy_share(down, SHARED.rules) == 1.0, "a free GPU of a node that is down is useless"
    all_shared = replace(NODES, partitions=Labels.of(["shared", "shared"]))
    assert busy_share(all_shared, SHARED.rules) == 1.0
