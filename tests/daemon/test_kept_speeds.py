"""What kinds of jobs keep of their speed beside others, from the iterations that they report."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slurmsched.cluster.columns import table_of
from slurmsched.cluster.jobs import JobState, job_table
from slurmsched.cluster.records.progress import ProgressTable
from slurmsched.cluster.state import ClusterState
from slurmsched.daemon.kept_speeds import CYCLES, LEAST, MEASURED_S, KeptSpeeds, SharedTime
from slurmsched.models.sharing.speed_curve import SpeedCurve

CURVE = SpeedCurve.of([0.0, 2.0], [1.0, 0.5])
EVERY_S = 5.0
LONG_S = MEASURED_S + (CYCLES + 3) * EVERY_S
NOTHING = job_table(0)


class Site:
    """Jobs on shared GPUs that report their iterations, cycle by cycle."""

    def __init__(self) -> None:
        self.speeds, self.now_s = KeptSpeeds(lambda: self.now_s), 1e9
        self.over: list[SharedTime] = []
        self.done: dict[int, float] = {}

    def runs(self, seconds: float, *jobs: tuple[int, str, int, float], util: float = 0.4) -> None:
        """Let jobs run for so long, each given as id, name, GPU and iterations per second; they report every cycle."""
        count = len(jobs)
        ids, names, gpus, rates = zip(*jobs, strict=True)
        running = job_table(
            count,
            job_id=list(ids),
            name=list(names),
            user=["alice"] * count,
            gpus=[1] * count,
            state=[JobState.RUNNING] * count,
            shares=[True] * count,
            node_list=["n1"] * count,
            per_node=[f"gres:slot:i{gpu}:1" for gpu in gpus],
            gpu_util=[util] * count,
            started_s=[self.now_s] * count,
        )
        for _ in range(int(seconds / EVERY_S)):
            self.now_s += EVERY_S
            for job, rate in zip(ids, rates, strict=True):
                self.done[job] = self.done.get(job, 0.0) + rate * EVERY_S
            columns = {"job_id": list(ids), "iteration": [int(self.done[job]) for job in ids]}
            progress = table_of(ProgressTable, count, {}, columns)
            state = ClusterState(NOTHING, running, NOTHING, None, None, None)
            self.over += self.speeds.observe(state, progress, self.now_s)

    def factors(self) -> dict[str, float]:
        return dict(self.speeds.factors(CURVE.speed))


def measured(rate: float, alone: float = 100.0, runs: int = LEAST, util: float = 0.4) -> dict[str, float]:
    """What is known after some runs of a kind alone, and as many beside another at this rate."""
    site = Site()
    for number in range(runs):
        site.runs(LONG_S, (10 + number, f"train_{number}", 0, alone), util=util)
        site.runs(LONG_S, (20 + number, f"train_{number}", 0, rate), (90, "other", 0, 7.0), util=util)
    return site.factors()


def test_a_kind_that_keeps_less_than_the_curve_says_is_known_with_the_part_that_it_keeps():
    # beside one of 40 % the curve says 0.8
    assert measured(60.0) == {"alice/train_#": 0.75}


def test_a_kind_that_keeps_what_the_curve_says_or_more_is_left_out():
    assert measured(80.0) == measured(99.0) == {}


def test_few_runs_and_unmeasured_use_conclude_nothing():
    assert measured(40.0, runs=LEAST - 1) == {}
    assert measured(40.0, util=np.nan) == {}


def test_a_speed_counts_only_in_the_same_company_for_long_enough():
    site = Site()
    for number in range(LEAST):
        site.runs(LONG_S, (10 + number, f"train_{number}", 0, 100.0))
        site.runs(MEASURED_S / 2, (20 + number, f"train_{number}", 0, 10.0), (90, "other", 0, 7.0))
        site.runs(MEASURED_S / 2, (20 + number, f"train_{number}", 0, 10.0), (91, "other", 0, 7.0))
    assert site.factors() == {}


def test_the_time_before_a_partner_came_counts_for_no_pair_and_a_job_on_another_gpu_is_no_partner():
    site = Site()
    for number in range(LEAST):
        job = (10 + number, f"train_{number}", 0, 100.0)
        site.runs(LONG_S, job, (90, "other", 1, 7.0))
        site.runs(LONG_S, (*job[:3], 60.0), (91, "other", 0, 7.0))
    assert site.factors() == {"alice/train_#": 0.75}


def test_a_job_that_reports_nothing_new_is_not_slow():
    site = Site()
    for number in range(LEAST):
        site.runs(LONG_S, (10 + number, f"train_{number}", 0, 100.0))
        site.runs(LONG_S, (20 + number, f"train_{number}", 0, 80.0), (90, "other", 0, 7.0))
        site.runs(10 * LONG_S, (20 + number, f"train_{number}", 0, 0.0), (90, "other", 0, 7.0))
    assert site.factors() == {}


def test_the_time_beside_another_is_told_when_it_is_over_with_the_speed_that_was_kept_then():
    site = Site()
    site.runs(LONG_S, (10, "train_1", 0, 100.0))
    site.runs(100.0, (10, "train_1", 0, 80.0), (90, "other", 0, 7.0))
    assert site.over == []
    site.runs(EVERY_S, (10, "train_1", 0, 100.0))
    told = {one.job_id: one for one in site.over}
    assert told.keys() == {10, 90}
    assert (told[10].partners, told[90].partners) == ((90,), (10,))
    assert abs(told[10].speed - 0.8) < 0.02
    assert np.isnan(told[90].speed), "it was never alone"
    assert abs(told[10].seconds - 100.0) <= EVERY_S
    assert told[10].util == 0.8


@given(st.floats(1.0, 1000.0), st.floats(0.2, 1.0), st.floats(0.05, 0.95))
def test_what_is_concluded_is_near_to_what_was_so(alone, kept, util):
    (factor,) = measured(alone * kept, alone, util=util).values() or (1.0,)
    expected = min(1.0, kept / float(CURVE.speed(np.array([2.0 * util]))[0]))
    assert abs(factor - expected) <= 0.02 + 2.0 / (alone * kept * MEASURED_S)
