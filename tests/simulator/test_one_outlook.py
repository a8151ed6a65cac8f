"""One state of a cluster, one answer: whoever asks gets the same remaining times and the same start."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.forecast import Forecast
from slurmsched.cluster.records.prediction_records import KeptState, kept_table
from slurmsched.cluster.state import View
from slurmsched.decide.deadlines.gpu_availability import GpuAvailability
from slurmsched.decide.phrasing import spell
from slurmsched.decide.rules import Rules
from slurmsched.decide.sharing.queue_wait import own_waits_s
from slurmsched.explain.eta import eta_of
from slurmsched.explain.explain import explain, queue
from slurmsched.explain.why import Circumstances, why
from slurmsched.foresee.predict_completion import predict_completion
from slurmsched.foresee.whatif import Option, compare
from slurmsched.models.completion.completion_calibration import Calibration
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide
from slurmsched.research.conformance.random_views import NOW_S, jobs, nodes, partitions, qos, running_jobs

SLURM = {"SchedulerParameters": "bf_interval=1,bf_resolution=1,batch_sched_delay=0"}
ROOM = 4  #: GPUs of each node


@st.composite
def states(draw: st.DrawFn) -> View:
    """Two nodes full of running jobs, a third that drains, a fourth whose GPUs are shared, and a job that waits.

    Some of the running jobs are past their forecast, some have none.
    """
    columns: dict[str, list[Any]] = {name: [] for name in ("node_list", "gpus", "partition", "per_node", "shares")}

    def runs(node: str, gpus: int, slots: str) -> None:
        row = (node, gpus, "shared" if slots else "gpu", slots, bool(slots))
        for name, value in zip(columns, row, strict=True):
            columns[name].append(value)

    for node in ("n1", "n2", "n3"):
        left = ROOM
        while left:
            gpus = draw(st.integers(1, left))
            runs(node, gpus, "")
            left -= gpus
    for gpu in draw(st.lists(st.integers(0, ROOM - 1), max_size=ROOM, unique=True)):
        for _ in range(draw(st.integers(1, 2))):
            runs("n4", 1, f"gres:slot:i{gpu}:1")
    many = len(columns["gpus"])

    def each(*values: float) -> list[float]:
        return draw(st.lists(st.sampled_from(values), min_size=many, max_size=many))

    ran_s = np.array(each(30.0, 600.0, 3_600.0, 90_000.0))
    running = running_jobs(many, **columns, started_s=NOW_S - ran_s, time_limit_s=each(1e5, 2e5, np.inf))
    room = replace(nodes((ROOM,) * 4, (ROOM,) * 4), usable=np.array([True, True, False, True]))
    room = replace(
        room,
        partitions=Labels.of(["gpu"] * 3 + ["shared"]),
        state=Labels.of(["allocated", "allocated", "draining", "mixed"]),
        cpus=room.cpus + 100,
    )
    one = partitions().take(slice(0, 1))
    gates = one.changed(name=Labels.of(["gpu"]), nodes=Labels.of(["n[1-3]"])).joined(
        one.changed(name=Labels.of(["shared"]), nodes=Labels.of(["n4"]))
    )
    waits = jobs(1, time_limit_s=[7_200.0], submitted_s=[NOW_S], first_submit_s=[NOW_S], eligible_s=[NOW_S])
    expected = said(each(20.0, 601.0, 1_200.0, 7_000.0, np.nan))
    return View(NOW_S, waits, running, room, gates, qos(), said([600.0]), expected)


def said(runtimes_s: list[float]) -> Forecast:
    runtime_s = np.array(runtimes_s, dtype=np.float64)
    return Forecast(runtime_s, runtime_s, runtime_s, Labels.of(["median of 7 runs"] * len(runtimes_s)))


def calibration() -> Calibration:
    """What a daemon learnt from a hundred predictions whose jobs took five times as long as was said."""
    many = 100
    times = {"raw_start_s": 1e4, "start_from_s": 1e4, "start_s": 1e4, "start_by_s": 1e4, "started_s": 5e4}
    times |= {"raw_finish_s": 2e4, "finish_from_s": 2e4, "finish_s": 2e4, "finish_by_s": 2e4, "ended_s": 1e5}
    columns = {name: np.full(many, value) for name, value in times.items()}
    kept = kept_table(many, **columns, scale=np.ones(many), state=np.full(many, int(KeptState.SETTLED)))
    return Calibration.of(kept, NOW_S)


@examples(200, each_change=25)
@given(states())
def test_every_answer_has_the_same_remaining_time_and_the_same_start(seen):
    left_s = seen.remaining.median_s
    assert (left_s >= 1).all()
    assert np.isfinite(left_s).all()
    fifo, rules = find_ordering("fifo"), Rules()
    plan = decide(seen, fifo, rules)
    table = predict_completion(seen, plan.jobs.rank, plan.jobs.standing, SLURM)
    for row, job_id in enumerate(seen.running.job_id.tolist()):
        eta = eta_of(table, seen, job_id, NOW_S)
        assert eta.finish_s - NOW_S == left_s[row]
        words = f"It should be done in about {spell(left_s[row])}"
        beside = Circumstances(eta=eta)
        assert words in why(seen, plan, rules, job_id, beside).time
        assert any(words in line for line in explain(seen, plan, rules, job_id, beside).sentences)
    availability = GpuAvailability(seen, 0.5, 1.0)
    assert np.allclose(availability.ends_s - NOW_S, left_s, atol=1.0)
    free_s = float(seen.gpus_free_s[:2].min())
    assert own_waits_s(seen, np.array([0]), "shared").tolist() == [free_s]
    eta = eta_of(table, seen, 1, NOW_S)
    assert eta.start_s - NOW_S == free_s
    when = "now" if free_s <= 1 else f"in about {spell(free_s)}"
    assert f"It should start {when}" in why(seen, plan, rules, 1, Circumstances(eta=eta)).time
    (waiting,) = queue(seen, plan)
    assert (waiting.job_id, waiting.runs) == (1, False)  # its GPUs come free in a second at the earliest
    (now,) = compare(seen, SLURM, [Option("now")], 15.0).rows
    assert now.mean_wait_s == free_s


@given(states())
def test_why_and_eta_give_a_running_job_the_same_time_for_nine_in_ten_whatever_past_predictions_missed(seen):
    told = seen.forecast_running
    seen = replace(seen, forecast_running=replace(told, low_s=told.runtime_s / 2, high_s=told.runtime_s * 3))
    plan = decide(seen, find_ordering("fifo"), Rules())
    table = predict_completion(seen, plan.jobs.rank, plan.jobs.standing, SLURM)
    shown = calibration().calibrated(table)
    for row, job_id in enumerate(seen.running.job_id.tolist()):
        high_s, by_s = float(seen.remaining.high_s[row]), eta_of(shown, seen, job_id, NOW_S).finish_by_s
        assert (by_s is not None) == np.isfinite(high_s)
        assert by_s is None or abs(by_s - NOW_S - high_s) < 0.001
        within = "" if by_s is None else f", within {spell(high_s)} nine times in ten"
        words = f"It should be done in about {spell(seen.remaining.median_s[row])}{within} ("
        assert words in why(seen, plan, Rules(), job_id).time
