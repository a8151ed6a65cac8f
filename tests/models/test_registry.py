"""The directory of trained models: one file a kind, one training at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmsched.errors import ConfigError, ModelUnusable
from slurmsched.models.artifact import Artifact
from slurmsched.models.registry import KINDS, ArtifactRegistry, shipped
from slurmsched.models.sharing.sharing_model import SharingModel

ONE = Artifact("throughput", 0.0, 1.0, {"jobs": 2.0}, {"models": {}})


def test_what_is_put_is_read_again_and_nothing_else_is_there(tmp_path: Path):
    shelf = ArtifactRegistry(tmp_path)
    assert [shelf.stamp(kind) for kind in KINDS] == [None, None, None]
    shelf.put(ONE)
    assert shelf.read("throughput") == ONE
    with pytest.raises(ModelUnusable, match="there is no model"):
        shelf.read("runtime")


def test_a_successor_is_told_from_what_it_replaces(tmp_path: Path):
    shelf = ArtifactRegistry(tmp_path)
    shelf.put(ONE)
    before = shelf.stamp("throughput")
    assert shelf.stamp("throughput") == before
    shelf.put(ONE)
    assert shelf.stamp("throughput") != before


def test_two_trainings_at_once_are_refused(tmp_path: Path):
    shelf = ArtifactRegistry(tmp_path / "models")
    with (
        shelf.training(),
        pytest.raises(ConfigError, match="another training holds"),
        ArtifactRegistry(tmp_path / "models").training(),
    ):
        pass
    with shelf.training():
        pass


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(ConfigError, match=r"models\.directory"),
        ArtifactRegistry(tmp_path / "file" / "models").training(),
    ):
        pass
    with pytest.raises(ConfigError, match=r"models\.directory"):
        ArtifactRegistry(tmp_path / "nowhere").put(ONE)


def test_the_shipped_sharing_model_is_whole_and_names_its_source():
    artifact = shipped()
    model = artifact.read_as(SharingModel.of_document)
    assert "CC-BY-4.0" in artifact.model["source"]
    assert model.pairs.limit(0.85) == pytest.approx(1.176, abs=1e-3)
    assert artifact.scores["right_held_out"] >= 0.70
