"""What decisions about sharing rest on beside one look at the cluster."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from slurmsched.cluster.columns import table_of
from slurmsched.cluster.jobs import JobState, job_table
from slurmsched.cluster.nodes import NodeTable
from slurmsched.cluster.records.faults import Instability, Mismatches
from slurmsched.cluster.records.progress import ProgressTable
from slurmsched.cluster.state import ClusterState
from slurmsched.daemon.kept_speeds import LEAST
from slurmsched.daemon.sharing_context import SharingContext
from slurmsched.db.tracking.story import StoryEvent
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import Rules, SharingRules
from slurmsched.models.registry import SHARING, ArtifactRegistry
from slurmsched.policies.contract import find_ordering
from slurmsched.policies.sharing_candidates import OFF

JOBS = job_table(
    3,
    job_id=[1, 2, 3],
    measured=[True, True, False],
    gpu_util=[0.1, 0.99, np.nan],
    memory_util=[0.05, 0.8, np.nan],
    gpu_memory_mib=[2000.0, 20_000.0, np.nan],
)
NODES = table_of(
    NodeTable, 2, {}, {"partitions": ["gpu", "shared"], "usable": [True, True], "gpus": [4, 4], "gpus_used": [1, 4]}
)
POLICY = Policy(find_ordering("fifo"), Rules(sharing=SharingRules()))
NOTHING = job_table(0)
UNSTABLE = Instability(9, 0, "n1", 10, 20, (0,), (8,), (1,), "it jumps")


def sharer(path, failed=()):
    known = Mismatches(failed, (UNSTABLE,))
    return SharingContext(ArtifactRegistry(path), lambda now_s: known)


def test_measured_jobs_are_scored_and_the_others_count_as_jumbo(tmp_path):
    state = ClusterState(JOBS, NOTHING, NOTHING, NODES, None, None)
    one = sharer(tmp_path)
    assert one.filled(state) is state, "nobody shares yet"
    one.with_sharing(POLICY, 100.0)
    assert one.filled(state).pending.share_score.tolist() == [0, 2, 2]


def test_the_path_of_a_score_is_told_in_words(tmp_path):
    assert sharer(tmp_path).why(JOBS, 1).endswith("measured configurations)")
    assert "so Jumbo" in sharer(tmp_path).why(JOBS, 1)


def test_an_unusable_model_on_the_shelf_costs_a_warning(tmp_path, caplog):
    (tmp_path / f"{SHARING}.json").write_text("no model")
    assert "so Tiny" in sharer(tmp_path).why(JOBS, 0)
    assert "share scores come from the model that slurmsched brings" in caplog.text


def test_the_known_mismatches_of_jobs_come_with_the_rules(tmp_path):
    rules = sharer(tmp_path, failed=(("a/x", "b/y"),)).with_sharing(POLICY, 100.0).rules.sharing
    assert (rules.failed, rules.unstable) == ((("a/x", "b/y"),), (UNSTABLE,))


def test_pairs_that_are_there_while_nobody_shares_any_more_are_still_known_to_be_unstable(tmp_path):
    off = replace(POLICY, rules=Rules(sharing=SharingRules(capacity=OFF)))
    assert sharer(tmp_path).with_sharing(off, 100.0).rules.sharing.unstable == (UNSTABLE,)


def test_what_kinds_of_jobs_keep_beside_others_comes_with_the_rules(tmp_path):
    done = {"value": 0}
    shown = {"shares": True, "gpus": 1, "state": JobState.RUNNING, "node_list": "n1", "user": "alice", "measured": True}
    shown |= {"per_node": "gres:slot:i0:1", "gpu_util": 0.4, "memory_util": 0.1, "gpu_memory_mib": 1000.0}

    def progress() -> ProgressTable:
        return table_of(ProgressTable, 1, {}, {"job_id": [job], "iteration": [done["value"]]})

    told: list[StoryEvent] = []
    one = SharingContext(ArtifactRegistry(tmp_path), lambda now_s: Mismatches(), progress, told.extend)
    now_s = 1e9
    for number in range(2 * LEAST):
        job, beside = 10 + number, number % 2 == 0
        ids, names = ([job, 90], [f"slow_{number}", "other"]) if beside else ([job], [f"slow_{number}"])
        running = job_table(len(ids), job_id=ids, name=names, **{key: [each] * len(ids) for key, each in shown.items()})
        for _ in range(50):
            now_s, done["value"] = now_s + 5.0, done["value"] + (200 if beside else 500)
            rules = one.with_sharing(POLICY, now_s).rules.sharing
            one.filled(ClusterState(NOTHING, running, NOTHING, NODES, None, None))
    ((kind, part),) = one.with_sharing(POLICY, now_s).rules.sharing.kept
    assert (kind, rules.least_speed) == ("alice/slow_#", 0.3)
    assert 0.35 < part < 0.5
    mine = [event.details for event in told if event.job_id in (10, 12, 14)]
    assert [details["partners"] for details in mine] == ["90"] * LEAST
    assert next(details["source"] for details in mine) == "as expected, not measured"
    assert {details["source"] for details in mine[1:]} == {"by its iterations"}
    assert {details["speed"] for details in mine[1:]} == {"0.40"}


def test_without_rules_of_sharing_nothing_is_adapted(tmp_path):
    plain = Policy(find_ordering("fifo"), Rules())
    assert sharer(tmp_path).with_sharing(plain, 100.0) is plain
