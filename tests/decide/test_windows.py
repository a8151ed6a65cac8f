"""Windows of reservations: nodes that are kept from jobs for a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from decide.views import NOW_S, forecast, jobs, nodes, partitions, view

from slurmsched.cluster.actions import Start
from slurmsched.cluster.columns import Labels, table_of
from slurmsched.cluster.jobs import JobState
from slurmsched.cluster.reservations import ReservationTable
from slurmsched.cluster.state import View
from slurmsched.decide.deadlines.gpu_availability import GpuAvailability
from slurmsched.decide.rules import Composition, DeadlineRules, Rules, as_planned
from slurmsched.explain.obstacles import obstacles
from slurmsched.explain.reserved_nodes import own_reservation_words
from slurmsched.foresee.predict_completion import predict_completion
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide

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


@pytest.mark.parametrize(
    ("limit_s", "hours", "on", "promised"),
    [
        (3 * HOUR_S, 1.0, "n[1-2]", False),  # Slurm starts it only after the window
        (3 * HOUR_S, 10.0, "n[1-2]", True),
        (HOUR_S, 1.0, "n[1-2]", True),
        (3 * HOUR_S, 1.0, "n1", True),  # on the other node
        (np.inf, 1.0, "n[1-2]", False),
        (np.inf, 10.0, "n[1-2]", True),
    ],
)
def test_a_promise_heeds_that_slurm_judges_by_the_time_limit(limit_s, hours, on, promised):
    rules = Rules(powers=frozenset({"order"}), deadlines=DeadlineRules())
    seen = site(2 * HOUR_S, 4 * HOUR_S, on=on, time_limit_s=[limit_s], comment=[f"slurmsched:deadline=+{hours}h"])
    short = replace(seen.forecast, **{name: np.array([300.0]) for name in ("runtime_s", "low_s", "high_s")})
    pending = replace(seen.pending, deadline_s=np.array([NOW_S + hours * HOUR_S]))
    plan = decide(replace(seen, forecast=short, pending=pending), find_ordering("fifo"), rules)
    assert plan.promises.open.tolist() == [promised]
    if not promised:
        assert plan.promises.earliest_s[0] - NOW_S == pytest.approx(4 * HOUR_S + 300.0, abs=700.0)


def test_a_promise_that_a_new_window_breaks_is_told_at_once():
    rules = Rules(powers=frozenset({"order"}), deadlines=DeadlineRules())
    seen = site(100 * HOUR_S, 101 * HOUR_S, comment=["slurmsched:deadline=+10h"])
    seen = replace(seen, pending=replace(seen.pending, deadline_s=np.array([NOW_S + 10 * HOUR_S])))
    promised = decide(seen, find_ordering("fifo"), rules).promises
    assert (int(promised.open.sum()), np.isnan(promised.announced_s).all()) == (1, True)
    later = replace(seen, now_s=NOW_S + 60.0, promises=promised)
    for begin_s, told in ((100 * HOUR_S, False), (2 * HOUR_S, True)):
        table = replace(seen.reservations, start_s=np.array([NOW_S + begin_s]), end_s=np.array([NOW_S + 101 * HOUR_S]))
        plan = decide(replace(later, reservations=table), find_ordering("fifo"), rules)
        assert np.isfinite(plan.promises.announced_s).tolist() == [told]
        assert (plan.promises.announced_s[0] == NOW_S + 60.0) == told


def test_gpus_of_nodes_that_are_reserved_now_come_free_after_that():
    seen = site(-HOUR_S, HOUR_S, on="n1")
    assert seen.gpus_free_s.tolist() == [[HOUR_S] * 4, [0.0] * 4]
    assert seen.free_gpus.now.tolist() == [0, 4]
    plan = decide(seen, find_ordering("fifo"), Rules())
    config = {"SchedulerParameters": "bf_interval=1,bf_resolution=1,batch_sched_delay=0"}
    assert predict_completion(seen, plan.jobs.rank, plan.jobs.standing, config).start_s[0] - NOW_S <= 1.0
    part = replace(seen.reservations, whole=np.array([False]))
    assert replace(seen, reservations=part).free_gpus.now.tolist() == [4, 4], "it takes some cores or GPUs of them"
    assert predicted_s(site(-HOUR_S, HOUR_S)) == pytest.approx(HOUR_S, abs=60.0)


def predicted_s(seen: View, config: str = "bf_interval=1,bf_resolution=1,batch_sched_delay=0") -> float:
    """The predicted start of the first job, in seconds from now."""
    plan = decide(seen, find_ordering("fifo"), Rules())
    found = predict_completion(seen, plan.jobs.rank, plan.jobs.standing, {"SchedulerParameters": config})
    return float(found.start_s[0] - NOW_S)


@pytest.mark.parametrize(
    ("seen", "start_s"),
    [
        (site(2 * HOUR_S, 4 * HOUR_S), 4 * HOUR_S),  # it does not end before
        (site(2 * HOUR_S, 4 * HOUR_S, reason=["ReqNodeNotAvail,_Reserved_for_maintenance"]), 4 * HOUR_S),
        (site(4 * HOUR_S, 5 * HOUR_S), 0.0),
        (site(2 * HOUR_S, 4 * HOUR_S, on="n1"), 0.0),  # on the other node
        (site(2 * HOUR_S, 4 * HOUR_S, on="n1", nodes=[2], gpus=[2]), 4 * HOUR_S),
        (site(2 * HOUR_S, 4 * HOUR_S, reservation=["repair"]), 2 * HOUR_S),  # inside it
        (site(-HOUR_S, 4 * HOUR_S, reservation=["repair"]), 0.0),
    ],
    ids=["across", "said", "before", "beside", "on both", "inside", "open"],
)
def test_a_job_is_predicted_off_the_windows_that_keep_it_out(seen, start_s):
    assert predicted_s(seen) == pytest.approx(start_s, abs=2.0)


def test_a_reservation_of_some_gpus_leaves_the_others_and_those_that_its_own_jobs_use():
    def seen(gpus: int, in_use: int) -> View:
        """A job before a node of four GPUs, of which two are reserved for nine hours."""
        one = site(-HOUR_S, 9 * HOUR_S, on="n1", gpus=[gpus], required_nodes=["n1"])
        part = replace(one.reservations, whole=np.array([False]), gpus=np.array([2]), cores=np.array([2]))
        inside = jobs(
            1, job_id=[9], gpus=[in_use], cpus=[in_use], reservation=["repair"], state=[int(JobState.RUNNING)]
        )
        inside = inside.changed(started_s=np.array([NOW_S - 60.0]), node_list=Labels.of(["n1"]))
        there = inside.take(np.arange(min(in_use, 1)))
        used = np.array([in_use, 0])
        room = one.nodes.changed(gpus_used=used, cpus_used=used)
        running = {"running": there, "forecast_running": one.forecast.take(np.arange(len(there)))}
        return replace(one, reservations=part, nodes=room, **running)

    assert predicted_s(seen(2, 0)) == pytest.approx(0.0, abs=2.0)
    assert predicted_s(seen(3, 0)) == pytest.approx(9 * HOUR_S, abs=2.0)
    assert predicted_s(seen(2, 2)) == pytest.approx(0.0, abs=2.0)
    assert predicted_s(seen(3, 2)) == pytest.approx(9 * HOUR_S, abs=2.0), "what they leave is reserved"


def in_part(begin_s: float, end_s: float, *waits: tuple[str, int, float], gpus: int = 0, busy: int = 0) -> View:
    """Jobs before a node of eight CPUs, four of them reserved, as (reservation, CPUs, hours), the first one first.

    *gpus* of four are reserved too; *busy* CPUs of the reservation are in use for an hour.
    """
    named, cpus, hours = (list(column) for column in zip(*waits, strict=True))
    many, most_s = len(waits), HOUR_S * np.array(hours)
    one = site(begin_s, end_s, on="n1")
    queue = jobs(many, reservation=named, cpus=cpus, gpus=[0] * many, time_limit_s=most_s)
    queue = queue.changed(required_nodes=Labels.of(["n1"] * many), priority=1000 - np.arange(many))
    part = {"whole": np.array([False]), "cores": np.array([4]), "gpus": np.array([gpus]), "flags": Labels.of([""])}
    inside = jobs(1, job_id=[900], gpus=[0], cpus=[busy], reservation=["repair"], state=[int(JobState.RUNNING)])
    inside = inside.changed(started_s=np.array([NOW_S]), node_list=Labels.of(["n1"]), time_limit_s=np.array([HOUR_S]))
    there = inside.take(np.arange(min(busy, 1)))
    room = one.nodes.changed(cpus=np.array([8, 8]), cpus_used=np.array([busy, 0]))
    seen = view(queue, most_s.tolist(), room=room)
    seen = replace(seen, running=there, forecast_running=forecast([HOUR_S] * len(there)))
    return replace(seen, reservations=replace(one.reservations, **part), partitions=one.partitions)


def starts_h(seen: View, config: str = "bf_interval=1,bf_resolution=1,batch_sched_delay=0") -> list[float]:
    """The predicted starts, in hours from now, rounded."""
    plan = decide(seen, find_ordering("fifo"), Rules())
    found = predict_completion(seen, plan.jobs.rank, plan.jobs.standing, {"SchedulerParameters": config})
    return [round((start_s - NOW_S) / HOUR_S, 1) for start_s in found.start_s[: len(seen.pending)].tolist()]


IN, OUT = "repair", ""


@pytest.mark.parametrize(
    ("seen", "starts"),
    [
        (in_part(-HOUR_S, 9 * HOUR_S, (IN, 4, 1)), [0.0]),
        (in_part(-HOUR_S, 9 * HOUR_S, (IN, 4, 1), (IN, 4, 2), (IN, 1, 1)), [0.0, 1.0, 3.0]),
        (in_part(-HOUR_S, 9 * HOUR_S, (IN, 4, 1), (OUT, 4, 1)), [0.0, 0.0]),  # outside are the other four
        (in_part(-HOUR_S, 9 * HOUR_S, (IN, 2, 1), (OUT, 5, 1)), [0.0, 9.0]),
        (in_part(-HOUR_S, 9 * HOUR_S, (IN, 5, 1)), [np.nan]),
        (in_part(-HOUR_S, 9 * HOUR_S, (IN, 2, 1), (IN, 2, 1), busy=3), [1.0, 1.0]),
        (in_part(-HOUR_S, 9 * HOUR_S, (OUT, 4, 1), (OUT, 1, 1), busy=3), [0.0, 1.0]),
        (in_part(2 * HOUR_S, 9 * HOUR_S, (IN, 4, 1), (OUT, 8, 2), (OUT, 8, 3)), [2.0, 0.0, 9.0]),
        (in_part(2 * HOUR_S, 9 * HOUR_S, (OUT, 4, 8), (IN, 4, 1)), [0.0, 2.0]),
    ],
    ids=[
        "open",
        "in turn",
        "both",
        "too wide outside",
        "too wide",
        "in use",
        "in use by those inside",
        "later",
        "beside",
    ],
)
def test_jobs_inside_a_reservation_of_parts_of_nodes_share_those_alone(seen, starts):
    assert starts_h(seen) == pytest.approx(starts, nan_ok=True)


def test_jobs_inside_have_the_gpus_that_are_reserved_or_any_where_none_are():
    def with_gpus(reserved: int, *gpus: int) -> View:
        seen = in_part(-HOUR_S, 9 * HOUR_S, *[(IN, 1, 1.0)] * len(gpus), gpus=reserved)
        return replace(seen, pending=seen.pending.changed(gpus=np.array(gpus)))

    assert starts_h(with_gpus(2, 2, 1)) == [0.0, 0.0], "each job may have as many as are reserved, as on 26.05"
    assert starts_h(with_gpus(2, 2, 2, 1)) == [0.0, 0.0, 1.0], "of the four of the node"
    assert starts_h(with_gpus(0, 3, 1)) == [0.0, 0.0]
    assert np.isnan(starts_h(with_gpus(2, 3))).all()


def test_why_and_eta_say_what_a_job_in_a_part_of_nodes_waits_for():
    (words,) = obstacles(in_part(-HOUR_S, 9 * HOUR_S, (IN, 5, 1))).values()
    assert words.startswith(
        "It cannot start in reservation repair, which has 4 CPUs of a node, and it asks for 5 there."
    )
    seen = in_part(-HOUR_S, 9 * HOUR_S, (IN, 4, 1), busy=3)
    assert not obstacles(seen)
    reason, advice = own_reservation_words(seen, 0) or ("", "")
    assert reason == (
        "It belongs to reservation repair, which is open for 9 h more: it waits for room in its part of the nodes."
    )
    assert "reservationname=" in advice


def test_a_job_that_is_not_named_in_a_reservation_never_starts_in_it():
    assert np.isnan(predicted_s(site(0.0, 9 * HOUR_S, reservation=["gone"])))


def repeated(*begins_s: float) -> View:
    """A window of an hour that repeats, on all nodes."""
    seen, many = site(begins_s[0], begins_s[0] + HOUR_S), len(begins_s)
    table = seen.reservations.take(np.zeros(many, dtype=np.int64))
    starts_s = NOW_S + np.array(begins_s)
    return replace(seen, reservations=replace(table, start_s=starts_s, end_s=starts_s + HOUR_S))


def test_a_job_starts_in_a_gap_of_a_repeated_window_that_is_long_enough():
    assert predicted_s(repeated(HOUR_S, 4 * HOUR_S, 9 * HOUR_S)) == pytest.approx(5 * HOUR_S, abs=2.0)


def test_a_run_set_leaves_out_jobs_that_a_window_keeps_from_their_nodes():
    rules = Rules(powers=frozenset({"start"}), executor=as_planned(Composition("backfill")))
    for seen, many in ((site(2 * HOUR_S, 4 * HOUR_S), 0), (site(4 * HOUR_S, 5 * HOUR_S), 1)):
        plan = decide(seen, find_ordering("fifo"), rules)
        assert len([one for one in plan.actions if isinstance(one, Start)]) == many
