"""Pairs whose load is unstable: who leaves, who never does, and that one word is good for one eviction."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from views import NOW_S, forecast, jobs, nodes, running_jobs, view

from examples import examples
from slurmsched.cluster.actions import Action, AskToStop, Release, Requeue, Share, StartShared, Unshare
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.jobs import SETTLE_S, JobState
from slurmsched.cluster.nodes import PartitionTable
from slurmsched.cluster.records.faults import Instability
from slurmsched.cluster.records.promises import PromiseState, promise_table
from slurmsched.decide.rules import DeadlineRules, Rules, SharingRules
from slurmsched.decide.sharing.pair_eviction import eviction_words
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide

HOST, GUEST = 911, 912
POWERS = frozenset({"order", "share", "requeue"})
WORD = Instability(GUEST, 0, "n3", int(NOW_S) - 200, int(NOW_S) - 5, (0,), (HOST,), (1,), "it jumps")
SHARES = SharingRules(memory_mib=16_000.0, unstable=(WORD,))
YIELDS = DeadlineRules(yields=True, stop_s=60.0, lease_s=300.0, asks_a_day=2)


def pair(**columns: Any) -> Any:
    """The host and the guest on GPU 0 of n3, which both said ckpt."""
    known = {
        "job_id": [HOST, GUEST],
        "node_list": ["n3", "n3"],
        "partition": ["shared"] * 2,
        "per_node": ["gres:slot:i0:1"] * 2,
        "shares": [True, True],
        "ckpt": [True, True],
        "restarts": [1, 0],
        "started_s": [NOW_S - 600.0, NOW_S - 300.0],
    }
    return running_jobs(2, **(known | columns))


def queued(job_id: int, restarts: int, ago_s: float = 10.0) -> Any:
    """One of the two after it was requeued: it still asks for its slot, and Slurm lets it wait for two minutes."""
    return jobs(
        1,
        job_id=[job_id],
        partition=["shared"],
        required_nodes=["n3"],
        per_node=["gres:slot:i0:1"],
        comment=["slurmsched:ckpt;slurmsched:share=0"],
        shares=[True],
        own_whole_gpus=["gpu gpu:1"],
        ckpt=[True],
        restarts=[restarts],
        held_by_us=[True],
        submitted_s=[NOW_S - ago_s],
        eligible_s=[NOW_S + 110.0],
        first_submit_s=[NOW_S - 1000.0],
    )


def seen(running: Any, pending: Any = None) -> Any:
    room = replace(nodes((4, 4, 4), (4, 4, 4)), partitions=Labels.of(["gpu", "gpu", "shared"]))
    pending = jobs(0) if pending is None else pending
    made = view(pending, [600.0] * len(pending), running=running, room=room)
    doors = PartitionTable(
        Labels.of(["gpu", "shared"]),
        np.array([1, 1]),
        np.ones(2, bool),
        np.full(2, np.inf),
        Labels.of(["n[1-2]", "n3"]),
    )
    return replace(made, partitions=doors, forecast_running=forecast([5000.0] * len(running)))


def wishes(what: Any, powers: frozenset[str] = POWERS, rules: SharingRules = SHARES, **more: Any) -> list[Action]:
    plan = decide(what, find_ordering("fifo"), Rules(powers=powers, sharing=rules, **more))
    return [action for action in plan.actions if isinstance(action, Requeue | AskToStop)]


def test_the_later_of_two_that_agreed_leaves():
    assert wishes(seen(pair())) == [Requeue(GUEST)]
    assert wishes(seen(pair(started_s=[NOW_S - 300.0, NOW_S - 600.0]))) == [Requeue(HOST)]


def test_where_the_later_did_not_agree_the_other_leaves():
    assert wishes(seen(pair(ckpt=[True, False]))) == [Requeue(HOST)]
    assert wishes(seen(pair(requeueable=[True, False]))) == [Requeue(HOST)]


def test_who_was_promised_a_deadline_stays_and_the_other_leaves():
    told = promise_table(1, job_id=[GUEST], state=[PromiseState.OPEN], promised_s=[NOW_S + 9000.0])
    assert wishes(replace(seen(pair()), promises=told)) == [Requeue(HOST)]
    assert wishes(replace(seen(pair(ckpt=[False, True])), promises=told)) == []
    assert wishes(replace(seen(pair()), promises=replace(told, state=np.array([PromiseState.MET])))) == [Requeue(GUEST)]


@pytest.mark.parametrize(
    ("powers", "rules", "words"),
    [
        (POWERS - {"requeue"}, SHARES, "power.requeue is off"),
        (POWERS, replace(SHARES, evict=False), "share.evict is off"),
        (POWERS, SHARES, "each lacks the token slurmsched:ckpt, may not be requeued, or has a promise"),
    ],
)
def test_nobody_leaves_where_nobody_agreed_or_an_admin_does_not_want_it_and_why_says_so(powers, rules, words):
    what = seen(pair(ckpt=[words.endswith("is off")] * 2))
    assert wishes(what, powers, rules) == []
    (said,) = eviction_words(what, HOST, Rules(powers=powers, sharing=rules))
    assert said == f"The load of the GPUs that it shares is unstable: it jumps. No job is stopped: {words}."


@pytest.mark.parametrize(
    "over",
    [
        {"restarts": [2, 0]},
        {"restarts": [1, 1]},
        {"job_id": [913, GUEST]},
        {"state": [JobState.COMPLETING, JobState.RUNNING]},
        {"state": [JobState.RUNNING, JobState.COMPLETING]},
        {"per_node": ["gres:slot:i0:1", "gres:slot:i1:1"]},
        {"node_list": ["n3", "n4"]},
        {"shares": [False, True]},
        {"started_s": [NOW_S + 100.0, NOW_S + 100.0]},
    ],
    ids=str,
)
def test_word_about_a_pair_that_is_over_does_nothing(over):
    what = seen(pair(**over))
    assert wishes(what) == []
    assert eviction_words(what, GUEST, Rules(powers=POWERS, sharing=SHARES)) == ()


def test_where_jobs_are_asked_to_yield_it_is_asked_first_and_requeued_when_it_had_time():
    def asked(ago_s: float, asks: int = 1) -> list[Action]:
        return wishes(seen(pair(stop_requested_s=[np.nan, NOW_S - ago_s], stop_requests=[0, asks])), deadlines=YIELDS)

    assert wishes(seen(pair()), deadlines=YIELDS) == [AskToStop(GUEST, "URG")]
    assert asked(30.0) == []
    assert asked(61.0) == [Requeue(GUEST)]
    assert asked(400.0) == [AskToStop(GUEST, "URG")], "that was before this run"
    assert asked(400.0, asks=2) == [Requeue(GUEST)], "it is not asked too often"


def test_a_job_that_left_gets_gpus_of_its_own_as_soon_as_slurm_is_done_with_its_run():
    host = pair().take(np.array([0]))

    def actions(ago_s: float) -> list[type[Action]]:
        plan = decide(seen(host, queued(GUEST, 1, ago_s)), find_ordering("fifo"), Rules(powers=POWERS, sharing=SHARES))
        return [type(action) for action in plan.actions]

    assert actions(SETTLE_S - 1.0) == []
    assert actions(SETTLE_S + 1.0) == [Unshare]
    plain = decide(seen(host, queued(GUEST, 1)), find_ordering("fifo"), Rules(powers=POWERS, sharing=SharingRules()))
    assert [type(action) for action in plain.actions] == [Release], "another job would start on its slots again"


def test_who_was_in_an_unstable_pair_neither_joins_nor_is_joined():
    light = {"measured": [True], "gpu_memory_mib": [4000.0], "share_score": [0], "gpu_util": [0.1]}
    host = replace(pair().take(np.array([0])), measured=np.array([True]), gpu_memory_mib=np.array([4000.0]))
    host = replace(host, share_score=np.array([0]))
    joins = {"per_node": ["gres:gpu:1"], "name": ["other"], **light}
    full = running_jobs(2, gpus=[4, 4], job_id=[801, 802], node_list=["n1", "n2"], per_node=["gres:gpu:4"] * 2)
    for job_id, rules, many in ((1, SHARES, 1), (GUEST, SHARES, 0), (GUEST, replace(SHARES, unstable=()), 1)):
        table = jobs(1, job_id=[job_id], **joins)
        plan = decide(seen(host.joined(full), table), find_ordering("fifo"), Rules(powers=POWERS, sharing=rules))
        made = [action for action in plan.actions if isinstance(action, Share)]
        assert [share.token != "0" for share in made] == [bool(rules.unstable)] * many


@st.composite
def sites(draw: st.DrawFn) -> tuple[Any, Rules]:
    """Some pairs, words about these and others, and whatever an admin may have said."""
    count = draw(st.integers(1, 4))
    places = [pair for at in range(count) for pair in ((2 * at, 2 * at + 1), (2 * at + 1, 2 * at))]

    def each(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=2 * count, max_size=2 * count))

    mostly, rarely = st.integers(0, 5).map(bool), st.integers(0, 5).map(lambda number: number == 0)
    running = running_jobs(
        2 * count,
        node_list=["n3"] * (2 * count),
        per_node=[f"gres:slot:i{at // 2}:1" for at in range(2 * count)],
        shares=each(mostly),
        ckpt=each(st.booleans()),
        off=each(rarely),
        interactive=each(rarely),
        requeueable=each(mostly),
        restarts=each(st.integers(0, 1)),
        state=each(st.sampled_from([JobState.RUNNING] * 5 + [JobState.COMPLETING, JobState.SUSPENDED])),
        started_s=NOW_S - np.array(each(st.sampled_from([10.0, 300.0, 600.0]))),
        stop_requested_s=NOW_S - np.array(each(st.sampled_from([float("nan"), 5.0, 100.0]))),
        stop_requests=each(st.integers(0, 3)),
    )
    words = []
    for _ in range(draw(st.integers(0, 5))):
        job, other = draw(st.permutations(range(2 * count)))[:2] if draw(rarely) else draw(st.sampled_from(places))
        restarts = [draw(st.integers(0, int(running.restarts[row]))) for row in (job, other)]
        end_s = int(NOW_S) - draw(st.sampled_from([0, 200, 5000]))
        about = (int(running.job_id[job]), restarts[0], "n3", end_s - 100, end_s)
        words.append(Instability(*about, (0,), (int(running.job_id[other]),), (restarts[1],), "it jumps"))
    sharing = SharingRules(memory_mib=16_000.0, unstable=tuple(words), evict=draw(mostly))
    powers = frozenset(draw(st.sets(st.sampled_from(sorted(POWERS)), min_size=2)))
    return seen(running), Rules(powers=powers, sharing=sharing, deadlines=draw(st.sampled_from([None, YIELDS])))


@given(sites())
@examples(30)
def test_nobody_is_evicted_without_consent_and_nobody_twice_for_one_word(case):
    what, rules = case
    actions = decide(what, find_ordering("fifo"), rules).actions
    stopped = [action.job_id for action in actions if isinstance(action, Requeue | AskToStop)]
    assert len(stopped) == len(set(stopped))
    running = what.running
    for job_id in stopped:
        row = running.row_of(job_id)
        assert running.ckpt[row]
        assert running.requeueable[row]
        assert not running.off[row]
        assert not running.interactive[row]
        assert rules.sharing.evict
        assert {"share", "requeue"} <= rules.powers
        assert any(job_id in (seen.job_id, *seen.partners) for seen in rules.sharing.unstable)
        beside = np.flatnonzero((running.per_node.codes == running.per_node.codes[row]) & (running.job_id != job_id))
        assert running.job_id[beside[0]] not in stopped
    # Each of them runs again, in the same place by somebody else's doing: the same words stop nobody of that pair.
    ended = np.isin(running.job_id, stopped)
    anew = np.where(ended, NOW_S + 1.0, running.started_s)
    again = replace(
        what, now_s=NOW_S + 2.0, running=replace(running, restarts=running.restarts + ended, started_s=anew)
    )
    later = decide(again, find_ordering("fifo"), rules).actions
    twice = [action.job_id for action in later if isinstance(action, Requeue | AskToStop)]
    assert not {running.per_node[running.row_of(job)] for job in twice} & {
        running.per_node[running.row_of(job)] for job in stopped
    }


def test_a_job_on_its_way_to_share_is_not_stopped_by_word_of_its_last_run():
    pending = replace(queued(GUEST, 1), required_nodes=Labels.of(["n3"]))
    actions = decide(
        seen(pair().take(np.array([0])), pending), find_ordering("fifo"), Rules(powers=POWERS, sharing=SHARES)
    ).actions
    assert not [action for action in actions if isinstance(action, StartShared | Requeue | Release)]
