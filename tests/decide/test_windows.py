"""Windows of reservations: nodes that are kept from jobs for a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from decide.views import NOW_S, jobs, nodes, partitions, view

from slurmsched.cluster.columns import Labels, table_of
from slurmsched.cluster.reservations import ReservationTable
from slurmsched.cluster.state import View
from slurmsched.decide.deadlines.gpu_availability import GpuAvailability
from slurmsched.decide.rules import DeadlineRules, Rules
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide
from slurmsched.simulator.predict_completion import predict_completion

HOUR_S = 3600.0


def site(begin_s: float, end_s: float, on: str = "n[1-2]", **job: object) -> View:
    """A job before two idle nodes, and a maintenance of some of them."""
    window = {"name": Labels.of(["repair"]), "start_s": np.array([NOW_S + begin_s]), "end_s": np.array([NOW_S + end_s])}
    window |= {"nodes": Labels.of([on]), "flags": Labels.of(["MAINT"]), "whole": np.array([True])}
    table = table_of(ReservationTable, 1, {}, window)
    gate = partitions().take(slice(0, 1)).changed(name=Labels.of(["gpu"]), nodes=Labels.of(["n[1-2]"]))
    waits = jobs(1, **({"time_limit_s": [3 * HOUR_S]} | job))
    return replace(view(waits, [3 * HOUR_S], room=nodes((4, 4))), reservations=table, partitions=gate)


@pytest.mark.parametrize(
    ("seen", "start_s"),
    [
        (site(2 * HOUR_S, 4 * HOUR_S), 4 * HOUR_S),  # it does not end before
        (site(4 * HOUR_S, 5 * HOUR_S), 2.0),
        (site(-HOUR_S, HOUR_S), HOUR_S),
        (site(2 * HOUR_S, 4 * HOUR_S, on="n1"), 2.0),  # on the other node
        (site(2 * HOUR_S, np.inf), np.nan),
    ],
    ids=["across", "before", "during", "beside", "for ever"],
)
def test_room_for_promises_leaves_out_nodes_in_their_windows(seen, start_s):
    availability = GpuAvailability(seen, 0.5, 1.0)
    rows = np.array([0])
    room = availability.open(rows)
    request = availability.requests(rows, np.array([np.inf]), NOW_S + 2.0)
    found_s = room.earliest(request.rows[0], 1, float(request.needs_s[0]), NOW_S + 2.0) - NOW_S
    assert found_s == pytest.approx(start_s, nan_ok=True, abs=1.0)


def test_no_promise_is_given_across_a_maintenance_of_all_nodes():
    rules = Rules(powers=frozenset({"order"}), deadlines=DeadlineRules())
    for begin_s, promised in ((2 * HOUR_S, 0), (100 * HOUR_S, 1)):
        seen = site(begin_s, begin_s + 12 * HOUR_S, comment=["slurmsched:deadline=+10h"])
        seen = replace(seen, pending=replace(seen.pending, deadline_s=np.array([NOW_S + 10 * HOUR_S])))
        plan = decide(seen, find_ordering("fifo"), rules)
        assert int(plan.promises.open.sum()) == promised


def test_gpus_of_nodes_that_are_reserved_now_come_free_after_that():
    seen = site(-HOUR_S, HOUR_S, on="n1")
    assert seen.gpus_free_s.tolist() == [[HOUR_S] * 4, [0.0] * 4]
    assert seen.free_gpus.now.tolist() == [0, 4]
    plan = decide(seen, find_ordering("fifo"), Rules())
    config = {"SchedulerParameters": "bf_interval=1,bf_resolution=1,batch_sched_delay=0"}
    assert predict_completion(seen, plan.jobs.rank, plan.jobs.standing, config).start_s[0] - NOW_S <= 1.0
    part = replace(seen.reservations, whole=np.array([False]))
    assert replace(seen, reservations=part).free_gpus.now.tolist() == [4, 4], "it takes some cores or GPUs of them"
    all_of_them = site(-HOUR_S, HOUR_S)
    assert np.isnan(predict_completion(all_of_them, plan.jobs.rank, plan.jobs.standing, config).start_s[0])
