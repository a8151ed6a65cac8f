"""EASY and conservative backfill against a scheduler that plans second by second."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulator.worlds import simulate

from examples import examples
from slurmsched.policies.contract import Ordering
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.report.metrics import violations
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.workload.workload import Workload, workload


@dataclass(frozen=True)
class Job:
    submit_s: int
    runtime_s: int
    limit_s: int
    gpus: int
    key: int


def trace(jobs: list[Job]) -> Workload:
    return workload(
        len(jobs),
        job_id=np.arange(1, len(jobs) + 1),
        submit_s=[job.submit_s for job in jobs],
        runtime_s=[job.runtime_s for job in jobs],
        time_limit_s=[job.limit_s for job in jobs],
        gpus=[job.gpus for job in jobs],
    )


def by_key(jobs: list[Job], selection: str) -> Setup:
    keys = {number: float(job.key) for number, job in enumerate(jobs, start=1)}
    given_keys = Ordering(
        "given", lambda view: np.array([keys[job] for job in view.pending.job_id.tolist()]), "", "never"
    )
    return Setup(given_keys, selection, placement="pool")


class Planner:
    """One pool of GPUs, whole seconds, nothing clever."""

    def __init__(self, jobs: list[Job], gpus: int) -> None:
        self.jobs, self.gpus = jobs, gpus
        self.start: dict[int, int] = {}
        self.times = sorted({job.submit_s for job in jobs})
        self.horizon = max(job.submit_s for job in jobs) + sum(job.limit_s for job in jobs) + 2

    def run(self, selection: str) -> list[int]:
        seen: set[int] = set()
        while self.times:
            now = heapq.heappop(self.times)
            if now not in seen:
                seen.add(now)
                (self.easy if selection == "easy" else self.conservative)(now)
        return [self.start[number] for number in range(len(self.jobs))]

    def begin(self, number: int, now: int) -> None:
        self.start[number] = now
        heapq.heappush(self.times, now + self.jobs[number].runtime_s)

    def queue(self, now: int) -> list[int]:
        waiting = [n for n, job in enumerate(self.jobs) if n not in self.start and job.submit_s <= now]
        return sorted(waiting, key=lambda n: (self.jobs[n].key, n))

    def free(self, now: int) -> np.ndarray:
        """Free GPUs in each second from now on, by time limits."""
        free = np.full(self.horizon - now, self.gpus)
        for number, start in self.start.items():
            if start + self.jobs[number].runtime_s > now:
                free[: start + self.jobs[number].limit_s - now] -= self.jobs[number].gpus
        return free

    def easy(self, now: int) -> None:
        queue = self.queue(now)
        while queue and self.jobs[queue[0]].gpus <= self.free(now)[0]:
            self.begin(queue.pop(0), now)
        if not queue:
            return
        head = self.jobs[queue.pop(0)]
        free = self.free(now)
        shadow = int(np.argmax(free >= head.gpus))
        extra = int(free[shadow]) - head.gpus
        for number in queue:
            job = self.jobs[number]
            if job.gpus <= self.free(now)[0] and (job.limit_s <= shadow or job.gpus <= extra):
                extra -= job.gpus if job.limit_s > shadow else 0
                self.begin(number, now)

    def conservative(self, now: int) -> None:
        free = self.free(now)
        for number in self.queue(now):
            job, at = self.jobs[number], 0
            while not (free[at : at + job.limit_s] >= job.gpus).all():
                at += 1
            free[at : at + job.limit_s] -= job.gpus
            if at == 0:
                self.begin(number, now)


@st.composite
def worlds(draw) -> tuple[list[Job], int]:
    gpus = draw(st.integers(1, 8))
    job = st.builds(
        lambda submit, runtime, slack, wanted, key: Job(submit, runtime, runtime + slack, wanted, key),
        st.integers(0, 15),
        st.integers(1, 9),
        st.integers(0, 8),
        st.integers(1, gpus),
        st.integers(0, 3),
    )
    jobs = draw(st.lists(job, min_size=1, max_size=12))
    return sorted(jobs, key=lambda one: one.submit_s), gpus


@pytest.mark.parametrize("selection", ["easy", "conservative"])
@examples(1000, each_change=80)
@given(world=worlds())
def test_jobs_start_when_a_plan_second_by_second_starts_them(selection, world):
    jobs, gpus = world
    replay = simulate(trace(jobs), ClusterSpec.of(1, gpus), by_key(jobs, selection))
    assert replay.start_s.tolist() == Planner(jobs, gpus).run(selection)
    assert violations(replay) == []


def test_easy_lets_a_short_job_pass_and_keeps_the_first_in_line_on_time():
    jobs = [Job(0, 10, 10, 2, 0), Job(1, 10, 10, 4, 0), Job(2, 5, 5, 2, 0), Job(3, 20, 20, 2, 0)]
    assert simulate(trace(jobs), ClusterSpec.of(1, 4), by_key(jobs, "easy")).start_s.tolist() == [0, 10, 2, 20]


def test_easy_may_delay_the_second_in_line_and_conservative_may_not():
    jobs = [Job(0, 10, 10, 3, 0), Job(1, 10, 10, 4, 1), Job(2, 10, 10, 3, 2), Job(3, 30, 30, 1, 3)]
    late = simulate(trace(jobs), ClusterSpec.of(1, 4), by_key(jobs, "easy")).start_s.tolist()
    assert late == [0, 10, 20, 20]
    on_time = [Job(0, 10, 10, 2, 0), Job(1, 10, 10, 3, 1), Job(2, 10, 10, 4, 2), Job(3, 25, 25, 1, 3)]
    easy = simulate(trace(on_time), ClusterSpec.of(1, 4), by_key(on_time, "easy")).start_s.tolist()
    conservative = simulate(trace(on_time), ClusterSpec.of(1, 4), by_key(on_time, "conservative")).start_s.tolist()
    assert (easy[2], conservative[2]) == (28, 20)


def test_on_nodes_a_job_is_backfilled_where_it_does_not_stand_in_the_way():
    jobs = [Job(0, 10, 10, 4, 0), Job(0, 50, 50, 2, 1), Job(1, 10, 10, 4, 2), Job(2, 100, 100, 2, 3)]
    setup = by_key(jobs, "easy")
    replay = simulate(trace(jobs), ClusterSpec.of(2, 4), Setup(setup.ordering, "easy", placement="consolidate"))
    assert replay.start_s.tolist() == [0, 0, 10, 2]
