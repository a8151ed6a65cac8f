"""Run by run, nothing that a simulation says happened is impossible; and what is impossible is found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulator.worlds import decided, setups, simulate, trace, worlds

from examples import examples
from slurmsched.policies.contract import PLACEMENTS
from slurmsched.policies.presets import PRESETS
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.replay import Replay
from slurmsched.simulator.report.feasibility import impossible
from slurmsched.simulator.run import simulate as unchecked
from slurmsched.simulator.setup import STOCK, Setup

FEW = {"fifo", "srtf", "tiresias"}
"""Presets that judge a change to any placement: one never stops a job, one often, one by its turn."""
SLOW = {"tiresias-plus", "fgd", "fgd-filled"}
"""Placements that measure, or score by other jobs: two of those presets judge a change to them."""


def pairs() -> Iterator[object]:
    """Every preset under every placement; each placement with few presets judges a change, each preset with one."""
    others = [each for other in sorted(set(PLACEMENTS) - {"pool"} - SLOW) for each in ("pool", other)]
    for (number, name), placement in product(enumerate(sorted(set(PRESETS) - {STOCK})), sorted(PLACEMENTS)):
        judging = FEW - {"tiresias"} if placement in SLOW else FEW
        judges = name in judging or placement == others[number % len(others)]
        yield pytest.param(name, placement, marks=[] if judges else [pytest.mark.soak])


@pytest.mark.parametrize(("name", "placement"), [*pairs()])
@examples(20)
@given(world=worlds(), data=st.data())
def test_no_policy_does_the_impossible(name, placement, world, data):
    jobs, fleet = world
    setup = data.draw(setups(name, placement))
    kept = simulate(jobs, fleet, setup, segments=True)
    assert impossible(kept) == []
    plain = unchecked(jobs, fleet, setup)
    assert plain.segments is None
    assert plain.end_s.tolist() == kept.end_s.tolist()


def runs_of(replay: Replay) -> list[tuple[object, ...]]:
    """Each run: its end, its start, its job, and its nodes with GPUs."""
    log = replay.segments
    ends = zip(log.first.tolist(), [*log.first[1:].tolist(), len(log.node)], strict=True)
    pairs = [sorted(zip(log.node[a:b].tolist(), log.gpus[a:b].tolist(), strict=True)) for a, b in ends]
    return sorted(zip(log.end_s.tolist(), log.start_s.tolist(), log.row.tolist(), pairs, strict=True))


def test_decisions_keep_the_same_runs_as_the_fast_loops():
    jobs, two_nodes = trace((0, 100, 4), (10, 5, 4), (12, 20, 8)), ClusterSpec.of(2, 4)
    setup = Setup.of("srtf", restart_s=3.0)
    fast, slow = (run(jobs, two_nodes, setup, segments=True) for run in (simulate, decided))
    assert runs_of(fast) == runs_of(slow)
    assert len(runs_of(fast)) > len(jobs)


def test_a_run_says_from_when_to_when_and_on_which_gpus():
    runs = simulate(
        trace((0, 100, 6), (10, 5, 8)), ClusterSpec.of(2, 4), Setup.of("srtf", restart_s=3.0), segments=True
    ).segments
    assert runs.row.tolist() == [0, 1, 0]
    assert list(zip(runs.start_s.tolist(), runs.end_s.tolist(), strict=True)) == [(0, 10), (10, 15), (15, 108)]
    pairs = list(zip(runs.node.tolist(), runs.gpus.tolist(), strict=True))
    assert [sorted(pairs[at : at + 2]) for at in runs.first.tolist()] == [
        [(0, 4), (1, 2)],
        [(0, 4), (1, 4)],
        [(0, 4), (1, 2)],
    ]


def test_without_runs_there_is_nothing_to_judge():
    with pytest.raises(ValueError, match="has no segments"):
        impossible(simulate(trace((0, 1, 1)), ClusterSpec.of(1, 1), Setup.of("fifo")))


def a_replay() -> Replay:
    """One job on both nodes, stopped by a second on one of them, and going on."""
    return simulate(
        trace((0, 100, 6), (10, 5, 4)), ClusterSpec.of(2, 4), Setup.of("srtf", restart_s=3.0), segments=True
    )


def bent(replay: Replay, column: str, at: int, by: float) -> Replay:
    """The replay with one number of its segments changed."""
    values = getattr(replay.segments, column).copy()
    values[at] += by
    return replace(replay, segments=replay.segments._replace(**{column: values}))


@pytest.mark.parametrize(
    ("column", "at", "by", "complaint"),
    [
        ("start_s", 0, -1.0, "1 run began before submission"),
        ("end_s", 1, 1.0, "1 job did more or less than needed"),
        ("end_s", 0, 6.0, "1 run began before the one before them was over"),
        ("start_s", 1, -2.0, "node n1 gave more GPUs than it has"),
        ("gpus", 0, 1, "1 run on more or fewer GPUs than requested"),
        ("gpus", 0, 3, "gave more GPUs than it has"),
        ("row", 1, -1, "1 job never ran"),
        ("end_s", 2, 1.0, "ends are not those of the runs"),
    ],
)
def test_each_impossible_thing_is_found(column, at, by, complaint):
    assert impossible(a_replay()) == []
    assert complaint in "; ".join(impossible(bent(a_replay(), column, at, by)))


def test_a_count_of_preemptions_that_is_not_that_of_the_runs_is_found():
    assert impossible(replace(a_replay(), stops=np.array([0, 0]))) == ["preemptions are not those of the runs"]


def test_whoever_runs_twice_on_one_node_at_once_is_found():
    replay = a_replay()
    runs = replay.segments
    assert impossible(replace(replay, segments=runs._replace(node=np.zeros_like(runs.node)))) != []
