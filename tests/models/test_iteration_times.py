"""How much slower a job is than at its best, by its reports."""

from __future__ import annotations

import math

from slurmsched.models.progress.iteration_times import TYPICAL, IterationTimes


class Job:
    """A job that reports each 30 s."""

    def __init__(self) -> None:
        self.times, self.iteration, self.now_s = IterationTimes(), 0, 0.0

    def trains(self, reports, iterations):
        for _ in range(reports):
            self.times.add(self.iteration, self.now_s)
            self.iteration += iterations
            self.now_s += 30.0
        return self.times.slowdown


def test_a_job_that_does_half_as_much_takes_twice_as_long():
    job = Job()
    assert math.isnan(job.trains(TYPICAL, 10)), "that many times need one report more"
    assert job.trains(1, 10) == 1.0
    assert job.trains(TYPICAL + 1, 5) == 2.0


def test_a_single_slow_stretch_is_no_slowdown():
    job = Job()
    job.trains(10, 10)
    job.now_s += 600.0
    assert job.trains(2, 10) == 1.0


def test_the_best_of_earlier_runs_counts_and_the_pace_before_a_new_run_does_not():
    job = Job()
    job.trains(10, 10)
    job.times.begin_run()
    job.now_s += 3600.0
    assert math.isnan(job.trains(TYPICAL, 4))
    assert job.trains(2, 4) == 2.5


def test_reports_without_progress_say_nothing():
    job = Job()
    assert math.isnan(job.trains(20, 0))
