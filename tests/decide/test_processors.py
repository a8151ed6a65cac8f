"""Plans are the same on processors with other vector units, and whatever the order in which Slurm shows jobs."""

from __future__ import annotations

import numpy as np
import pytest
from decide.processor_cycles import TENTHS, all_powers, lively_view, plans, tied
from processors import printed_elsewhere

from slurmsched.cluster.actions import AskToStop
from slurmsched.policies.contract import find_ordering
from slurmsched.policies.resizing import SIZE_DIVISIONS
from slurmsched.powers import decide


# To compile for the other processor takes ten times as long as all decisions.
@pytest.mark.parametrize(("views", "compiles"), [(3, False), pytest.param(6, True, marks=pytest.mark.soak)])
def test_recorded_and_drawn_cycles_have_the_same_plans_on_a_processor_without_vector_units(views, compiles):
    here, there = plans(views), printed_elsewhere("decide.processor_cycles", str(views), compiles=compiles)
    assert list(there) == list(here)
    assert [name for name in here if here[name] != there[name]] == []


def test_a_tie_between_gain_and_loss_stops_no_job_whatever_its_speeds():
    for left_s in (600.0, 700.0, 3600.0):
        for doubling in TENTHS / 10.0:
            seen, rules = tied(left_s, float(doubling))
            assert not any(isinstance(one, AskToStop) for one in decide(seen, find_ordering("fifo"), rules).actions)


@pytest.mark.parametrize("views", [7, pytest.param(40, marks=pytest.mark.soak)])
def test_the_order_of_rows_changes_no_order_of_jobs_and_stops_no_other_job(views):
    for seed in range(views):
        random = np.random.default_rng(seed)
        seen = lively_view(random)
        rows = random.permutation(len(seen.pending))
        for division in SIZE_DIVISIONS:
            rules = all_powers(division)
            one, other = (decide(view, find_ordering("srsf"), rules) for view in (seen, seen.take(rows)))
            assert one.jobs.rank[rows].tolist() == other.jobs.rank.tolist()
            assert one.jobs.runs[rows].tolist() == other.jobs.runs.tolist()
            assert set(map(str, one.actions)) == set(map(str, other.actions))
