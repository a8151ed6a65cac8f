"""Registries of the parts of policies."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from decide.views import jobs, running_jobs, view
from simulator.test_direct import jobs_of

from slurmsched.errors import ConfigError
from slurmsched.policies.admission import find_admission
from slurmsched.policies.contract import (
    ADMISSIONS,
    PLACEMENTS,
    PREEMPTIONS,
    PROFILINGS,
    SCALINGS,
    SELECTIONS,
    SHARINGS,
    STOPPINGS,
    find_ordering,
    selection,
)
from slurmsched.policies.sharing import pairs
from slurmsched.research.elastic.divisions import DIVISIONS
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.run import decided
from slurmsched.simulator.setup import Setup


@pytest.fixture
def one_at_a_time() -> Iterator[str]:
    """A selection of somebody else."""

    @selection("one-at-a-time")
    def one_at_a_time(seen, order, nodes):
        """One job starts at each decision."""
        any(nodes.start(number) for number in order.tolist())

    yield "one-at-a-time"
    del SELECTIONS._parts["one-at-a-time"]


HOOKS = [SELECTIONS, PLACEMENTS, ADMISSIONS, PREEMPTIONS, PROFILINGS, DIVISIONS, SCALINGS, SHARINGS, STOPPINGS]


@pytest.mark.parametrize("registry", HOOKS, ids=lambda one: one.hook)
def test_every_part_has_a_sentence_and_an_unknown_one_is_answered_with_those_there_are(registry):
    assert all(part.summary.endswith(".") for part in registry.values())
    with pytest.raises(
        ConfigError, match=rf"policy.{registry.hook} = 'mine' is not known; there are: .*{min(registry)}"
    ):
        registry.find("mine")


def test_a_selection_says_what_it_needs_to_be_carried_out():
    assert SELECTIONS["backfill"].powers == {"start"}
    assert SELECTIONS["preemptive"].powers == {"start", "preempt"}


def test_a_reserving_selection_takes_a_depth():
    assert SELECTIONS.find("easy depth=5").function.depth == 5
    for wrong in ("easy depth=0", "easy depth=many", "easy width=3"):
        with pytest.raises(ConfigError, match="depth=N"):
            SELECTIONS.find(wrong)
    with pytest.raises(ConfigError, match="selection 'strict' takes no parameters"):
        SELECTIONS.find("strict depth=5")


def test_tiresias_takes_the_steps_between_its_queues_by_name_or_alone():
    named, alone = (find_ordering(f"tiresias {words}") for words in ("steps=1200,29000", "1200 29000"))
    assert named == alone
    assert named.steps == (1200.0, 29000.0)
    assert named.line == "tiresias steps=1200,29000"
    seen = view(jobs(3, gpus=[1, 1, 1], ran_s=np.array([0.0, 1300.0, 30000.0])))
    assert np.argsort(named(seen)).tolist() == [0, 1, 2]
    with pytest.raises(ConfigError, match="above 0 and rising"):
        find_ordering("tiresias 1200 600")


def test_jobs_are_admitted_in_the_order_of_submission_up_to_the_bound():
    seen = view(
        jobs(3, gpus=[4, 4, 1], first_submit_s=[3.0, 2.0, 4.0], eligible_s=[3.0, 2.0, 4.0]),
        running=running_jobs(1, gpus=[4]),
    )
    total = int(seen.nodes.gpus.sum())
    assert find_admission(f"load:{8 / total}")(seen).tolist() == [False, True, False]
    assert find_admission(f"load:{13 / total}")(seen).tolist() == [True, True, True]
    assert find_admission("accept-all")(seen).all()


def test_a_selection_of_a_plug_in_decides(one_at_a_time):
    replay = decided(jobs_of((0, 10, 1), (0, 10, 1), (5, 10, 1)), ClusterSpec.of(1, 8), Setup.of("fifo", one_at_a_time))
    assert replay.start_s.tolist() == [0.0, 5.0, 10.0]


def test_the_rule_of_pairs_that_slurm_gets_is_a_part_by_name():
    assert SHARINGS.find("indolent").function is pairs
    assert SHARINGS["indolent"].powers == {"share"}
    assert not SHARINGS["none"].powers
