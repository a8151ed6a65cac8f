"""The weights of mlfs-rl in the daemon: only a promoted, intact actor orders jobs."""

from __future__ import annotations

import logging
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from decide.views import jobs, view

from slurmsched.config import PolicySettings, Settings
from slurmsched.daemon.active_actor import ActiveActor
from slurmsched.models.artifact import Artifact
from slurmsched.models.registry import ACTOR, ArtifactRegistry
from slurmsched.policies.contract import find_ordering
from slurmsched.policies.ordering.mlfs_rl import FEATURES, Actor

WIDE = len(FEATURES)
WEIGHTS = Actor(np.ones(WIDE), -np.ones(WIDE), np.ones(WIDE), np.ones((WIDE, 2)), np.ones(2), np.ones(2)).text


def actor(*, promoted: float = 1.0, **model) -> Artifact:
    return Artifact(
        ACTOR, 0.0, 1.0, {"promoted": promoted}, {"features": FEATURES, "actor": WEIGHTS, "why": "so"} | model
    )


@pytest.fixture
def artifacts(tmp_path: Path) -> ArtifactRegistry:
    return ArtifactRegistry(tmp_path)


def test_the_weights_of_a_promoted_actor_enter_the_line(artifacts):
    artifacts.put(actor())
    line = ActiveActor(artifacts).resolved("mlfs-rl across=all")
    assert line == f"mlfs-rl across=all actor={WEIGHTS}"
    assert find_ordering(line).settings["actor"] == WEIGHTS


def test_other_orderings_and_weights_of_the_admin_stay(artifacts):
    active = ActiveActor(artifacts)
    assert [active.resolved(line) for line in ("qssf", f"mlfs-rl actor={WEIGHTS}")] == [
        "qssf",
        f"mlfs-rl actor={WEIGHTS}",
    ]


def test_a_changed_file_costs_one_warning_and_the_fallback(artifacts, caplog):
    path = artifacts.put(actor())
    path.write_text(path.read_text().replace("so", "no"))
    active = ActiveActor(artifacts)
    with caplog.at_level(logging.WARNING):
        assert [active.resolved("mlfs-rl across=all") for _ in range(3)] == ["mlfs-h across=all"] * 3
    assert [record.message for record in caplog.records if "was changed after it was written" in record.message] == [
        caplog.records[0].message
    ]
    artifacts.put(actor())
    assert active.resolved("mlfs-rl").startswith("mlfs-rl actor=")


@pytest.mark.parametrize(
    "broken", [{"promoted": 0.0}, {"actor": "AAAA"}, {"features": FEATURES[1:]}, {"actor": None}], ids=str
)
def test_an_actor_that_was_not_promoted_or_describes_none_does_not_serve(artifacts, broken):
    artifacts.put(actor(**broken))
    assert ActiveActor(artifacts).resolved("mlfs-rl") == "mlfs-h"


def test_no_actor_at_all_is_the_fallback_too(artifacts):
    assert ActiveActor(artifacts).resolved("mlfs-rl") == "mlfs-h"


def test_weights_found_wanting_cost_one_warning_and_are_not_used_again_until_there_are_others(artifacts, caplog):
    artifacts.put(actor(promoted=1.0))
    active = ActiveActor(artifacts, processor_s=count(0.0, 1.0).__next__)
    settings = Settings(policy=PolicySettings(ordering="mlfs-rl", shadow="mlfs-rl across=all"))
    policy = active.policy_of(settings)
    assert (policy.ordering.name, policy.shadow.name, active.trouble) == ("mlfs-rl", "mlfs-rl", "")
    with caplog.at_level(logging.WARNING):
        assert active.watch(view(jobs(1), [600]), policy)
        found = [active.policy_of(settings) for _ in range(2)]
    assert [(one.ordering.name, one.shadow) for one in found] == [("mlfs-h", None)] * 2
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "nothing is recorded of mlfs-rl in shadow",
        "mlfs-h orders jobs in place of mlfs-rl",
    ]
    assert "its scores of 1 jobs took 1000 ms" in active.trouble
    assert active.resolved(f"mlfs-rl actor={WEIGHTS}") == "mlfs-h"
    others = replace(Actor.of_text(WEIGHTS), linear=np.zeros(WIDE)).text
    artifacts.put(actor(actor=others))
    assert active.take_change()
    assert not active.take_change()
    assert active.resolved("mlfs-rl") == f"mlfs-rl actor={others}"


def test_in_shadow_an_actor_needs_no_promotion(artifacts):
    artifacts.put(actor(promoted=0.0))
    active = ActiveActor(artifacts)
    assert active.shadowed("mlfs-rl") == f"mlfs-rl actor={WEIGHTS}"
    assert active.shadowed("qssf") == "qssf"
    assert active.shadowed("") == ""
