"""The order of writes of points, which counts where the budget does not reach for all of them."""

from __future__ import annotations

import numpy as np
import pytest
from views import TIERS, jobs, view

from slurmsched.cluster.actions import Rank
from slurmsched.cluster.state import View
from slurmsched.decide.rules import Rules
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide


def drawn(seed: int, count: int) -> View:
    """Jobs of two tiers with the priorities and points of an earlier order."""
    random = np.random.default_rng(seed)
    points = random.integers(0, 3, count) * random.integers(0, 50, count)
    pending = jobs(
        count,
        partition=random.choice([*TIERS], count).tolist(),
        reason=random.choice(["Priority", "JobHeldUser"], count, p=[0.9, 0.1]).tolist(),
        priority=random.integers(1, 40, count) + points,
        site_points=points,
    )
    return view(pending, random.integers(60, 9_000, count).astype(float).tolist())


@pytest.mark.parametrize("window", [3, 40])
@pytest.mark.parametrize("seed", range(50))
def test_writes_that_correct_the_top_of_the_queue_come_first(seed, window):
    seen = drawn(seed, 120)
    plan = decide(seen, find_ordering("sjf"), Rules(powers=frozenset({"order"}), window=window))
    pending, tier = seen.pending, seen.tiers
    writes = [action.job_id for action in plan.actions if isinstance(action, Rank)]

    def place(job_id: int) -> tuple[int, int, int]:
        row = job_id - 1
        higher = (tier > tier[row]) | ((tier == tier[row]) & (pending.priority > pending.priority[row]))
        wanted = int(plan.jobs.rank[row]) if plan.jobs.rank[row] >= 0 else len(pending)
        return min(int(higher.sum()), wanted), wanted, job_id

    assert len(writes) > window
    assert writes == sorted(writes, key=place)
