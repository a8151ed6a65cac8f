"""How much the database grows in a day with a long queue: ``python -m tests.bench.records [CYCLES]``.

The cycles of a daemon in act mode with 4,900 jobs waiting before 512 GPUs, every 15 s: some 4,000 jobs a day arrive and
end, forecasts follow the runs that end, priorities age every five minutes, and one job in a hundred has a deadline. On
a usual day the fair share of a user moves by a point in the hour, and Slurm estimates starts anew where a job has
started or ended. On a harsh day every user has another fair share every five minutes, and Slurm other estimates each
half a minute.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from slurmsched.clock import ManualClock
from slurmsched.cluster.jobs import JobState, JobTable
from slurmsched.cluster.state import ClusterState
from slurmsched.cycle import CycleContext, run_cycle
from slurmsched.db.memory import Memory
from slurmsched.db.store import Store
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import DeadlineRules, Rules
from slurmsched.models.runtime.baseline import RuntimeModel
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide
from slurmsched.slurm.adapters.fake import FakeSlurm
from slurmsched.slurm.write.budget import Budget
from slurmsched.slurm.write.writer import Writer

PENDING, EVERY_S, DAY_S = 4_900, 15.0, 86_400.0
CALC_S, BACKFILL_S = 300.0, 30.0  #: Slurm's PriorityCalcPeriod and bf_interval
USERS, NAMES = 300, 500


@dataclass
class Aging(FakeSlurm):
    """A Slurm whose multifactor priorities age, follow the use of their users, and that estimates starts."""

    harsh: bool = True
    seed: int = 0
    random: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)

    def observe(self) -> ClusterState:
        """As ever, with what Slurm's plugins would show."""
        state = super().observe()
        return replace(state, pending=self._aged(state.pending))

    def _aged(self, jobs: JobTable) -> JobTable:
        calculated_s = self.now_s // CALC_S * CALC_S
        age = (np.maximum(0.0, calculated_s - jobs.submitted_s) / (7 * DAY_S) * 1000).astype(np.int64)
        shares = self._shares(calculated_s) + 20 * np.arange(USERS)
        user = np.array([int(name.removeprefix("user")) for name in jobs.user.names])[jobs.user.codes]
        fairshare, size = shares[user], 10 * jobs.gpus
        started_s = np.full(len(jobs), np.nan)
        estimated = np.argsort(-jobs.priority, kind="stable")[:200]  # as far as backfill comes
        planned = np.random.default_rng(self._plan())
        started_s[estimated] = np.floor(self.now_s + np.sort(planned.exponential(20_000.0, len(estimated))))
        priority = jobs.priority + age + fairshare + size
        return replace(
            jobs, age_points=age, fairshare_points=fairshare, size_points=size, priority=priority, started_s=started_s
        )

    def _shares(self, calculated_s: float) -> np.ndarray:
        if self.harsh:
            return np.random.default_rng(int(calculated_s)).integers(0, 40, USERS)
        return ((calculated_s / CALC_S + np.arange(USERS)) // (3600.0 / CALC_S)).astype(np.int64) % 40

    def _plan(self) -> int:
        """The number of Slurm's latest plan of starts."""
        running = sum(job.job_id for job in self.jobs.values() if job.state == JobState.RUNNING)
        return int(self.now_s // BACKFILL_S) if self.harsh else running

    def arrive(self, count: int) -> None:
        """*count* jobs more, like those that are there."""
        for _ in range(count):
            user, name = int(self.random.integers(USERS)), int(self.random.integers(NAMES))
            usual_s = 3_000.0 * np.exp(np.random.default_rng(name).normal(0.0, 1.0))
            runtime_s = float(np.clip(usual_s * self.random.lognormal(0.0, 0.5), 60.0, DAY_S))
            self.submit(
                runtime_s,
                gpus=int(self.random.choice([1, 1, 1, 2, 4, 8])),
                user=f"user{user}",
                account=f"account{user % 20}",
                name=f"train_{name}_{self.random.integers(10_000)}",
                time_limit_s=float(self.random.choice([6, 12, 24])) * 3600.0,
                comment="slurmsched:deadline=+12h" if self.random.random() < 0.01 else "",
            )

    def forget(self) -> None:
        """What MinJobAge lets slurmctld forget."""
        for job in list(self.jobs.values()):
            if job.state.ended and job.ended_s < self.now_s - CALC_S:
                del self.jobs[job.job_id]


def cycles(store: Store, count: int, harsh: bool = True) -> Iterator[float]:
    """Run *count* cycles against *store*; yields what each took to record, in seconds."""
    cluster, clock = Aging(nodes=128, harsh=harsh), ManualClock()
    cluster.arrive(PENDING + 300)
    rules = Rules(frozenset({"order"}), scope="queue", max_points=0, deadlines=DeadlineRules())
    world = CycleContext(
        cluster=cluster,
        memory=Memory(store, cluster="bench", monotonic=clock.monotonic),
        model=RuntimeModel.fit(cluster.outcomes(0.0, 0.0)),
        policy=Policy(find_ordering("qssf"), rules),
        writer=Writer(cluster, Budget(20.0, 100)),
        clock=clock,
    )
    spent = [0.0]
    save = world.memory.save_decision

    def timed(record):  # type: ignore[no-untyped-def]
        began = time.process_time()
        save(record)
        spent[0] = time.process_time() - began

    world.memory.save_decision = timed  # type: ignore[method-assign]
    for number in range(1, count + 1):
        clock.now_s = cluster.now_s
        run_cycle(world, number, cluster.now_s, "act")
        cluster.advance(EVERY_S)
        waiting = sum(job.state == JobState.PENDING for job in cluster.jobs.values())
        cluster.arrive(max(0, PENDING - waiting))
        cluster.forget()
        yield spent[0]


def size_b(path: Path) -> int:
    """The bytes of an SQLite database whose log was written back."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").close()
    return os.path.getsize(path)


def by_table(path: Path) -> dict[str, int]:
    """Bytes by table and index, of which there are some."""
    with closing(sqlite3.connect(path)) as connection:
        return dict(connection.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name ORDER BY 2 DESC"))


def main() -> None:
    """Measure and print both days."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 480
    for harsh in (False, True):
        print("a harsh day:" if harsh else "a usual day:")
        measure(count, harsh)


def measure(count: int, harsh: bool) -> None:
    """Measure and print; then replay every tenth cycle."""
    with tempfile.TemporaryDirectory() as directory:
        store = Store(f"sqlite:///{directory}/bench.db")
        store.upgrade()
        warm = count // 4  # while the first points are written, which takes less than a day
        took_s: list[float] = []
        for number, spent_s in enumerate(cycles(store, count, harsh), start=1):
            took_s.append(spent_s)
            if number == warm:
                before_b, before = size_b(store.path or Path()), by_table(store.path or Path())
        assert store.path is not None
        after_b = size_b(store.path)
        a_day = DAY_S / EVERY_S
        per_cycle_b = (after_b - before_b) / (count - warm)
        print(f"{count} cycles, {PENDING} pending: {per_cycle_b / 1e3:.1f} kB a cycle after the first {warm},")
        print(
            f"  {per_cycle_b * a_day / 1e9:.3f} GB a day at one cycle in {EVERY_S:g} s, "
            f"and {before_b / 1e6:.1f} MB in the first {warm}"
        )
        print(f"  recording takes {1e3 * float(np.median(took_s)):.1f} ms, at most {1e3 * max(took_s):.0f} ms")
        grown = {name: (b - before.get(name, 0)) / (count - warm) / 1e3 for name, b in by_table(store.path).items()}
        print("  kB a cycle: " + ", ".join(f"{name} {kb:.2f}" for name, kb in grown.items() if kb > 0.05))
        bad, loads_s = 0, []
        for number in range(1, count + 1, 10):
            began = time.perf_counter()
            record = store.decision(number)
            loads_s.append(time.perf_counter() - began)
            assert record is not None
            policy = Policy.from_json(record.settings_json)
            again = decide(record.view, policy.ordering, policy.rules)
            same = again.jobs.equals(record.plan.jobs) and again.actions == record.plan.actions
            bad += not (same and again.promises.equals(record.plan.promises))
        print(
            f"  replayed {len(loads_s)} of them, {bad} differ; a record is read in {1e3 * max(loads_s):.0f} ms at most"
        )
        store.close()


if __name__ == "__main__":
    main()
