"""The weights of mlfs-rl in the daemon: only a promoted, intact actor orders jobs."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest

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
