"""Model files: whole or not there, and refused with a sentence where they are not what they say."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from slurmsched.errors import ModelUnusable, SlurmschedError
from slurmsched.models.artifact import SCHEMA, Artifact, digest_of
from slurmsched.models.ebm.additive import Additive, AdditiveTerm
from slurmsched.models.ebm.bins import Continuous

ADDITIVE = Additive(
    (Continuous("gpus", np.array([1.5, 3.0]), np.array([1.5])),),
    (AdditiveTerm(("gpus",), np.array([0.0, 0.1, 1 / 3, 0.7, 0.0]), np.array([0.0, 5.0, 3.0, 1.0, 0.0])),),
    0.1,
)
KEPT = Artifact("runtime", 1e9, 1.1e9, {"r2": 0.5}, ADDITIVE.document())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "runtime.json"
    KEPT.write(file)
    return file


def edited(path: Path, **changes: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def resigned(path: Path, **changes: object) -> None:
    """The edit of somebody who also writes the digest anew."""
    content = json.loads(path.read_text()) | changes
    del content["digest"]
    path.write_text(json.dumps(content | {"digest": digest_of(content)}))


def test_what_was_written_is_read_back(path):
    back = Artifact.read(path, "runtime")
    assert back == KEPT
    assert back.digest == KEPT.digest == json.loads(path.read_text())["digest"]
    model = back.read_as(Additive.of_document)
    columns = {"gpus": np.array([np.nan, 1.0, 2.0, 3.0])}
    assert model.predict(columns).tolist() == ADDITIVE.predict(columns).tolist()


def test_a_file_written_anew_by_another_layout_is_the_same_model(path):
    path.write_text(json.dumps(json.loads(path.read_text()), indent=4))
    assert Artifact.read(path, "runtime") == KEPT


def test_one_changed_score_is_noticed(path):
    model = json.loads(path.read_text())["model"]
    model["intercept"] += 1e-12
    edited(path, model=model)
    with pytest.raises(ModelUnusable, match="was changed after it was written"):
        Artifact.read(path, "runtime")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"format": "somebody else's"}, "is not a model that slurmsched wrote"),
        ({"schema": SCHEMA + 1}, f"has schema {SCHEMA + 1}; .* reads up to {SCHEMA}"),
        ({"schema": "1"}, "has schema '1'"),
        ({"digest": None}, "was changed"),
        ({"scores": {"r2": float("nan")}}, "was changed"),
    ],
)
def test_a_foreign_or_newer_file_is_refused(path, changes, why):
    edited(path, **changes)
    with pytest.raises(ModelUnusable, match=why):
        Artifact.read(path, "runtime")


def test_a_model_of_another_kind_is_refused(path):
    with pytest.raises(ModelUnusable, match="of kind 'runtime', not 'throughput'"):
        Artifact.read(path, "throughput")


@pytest.mark.parametrize("changes", [{"scores": None}, {"scores": {"r2": "x"}}, {"trained_from_s": 10**400}])
def test_a_file_without_what_every_model_has_is_refused(path, changes):
    resigned(path, **changes)
    with pytest.raises(ModelUnusable, match="lacks what every model has"):
        Artifact.read(path, "runtime")


@pytest.mark.parametrize(
    "model",
    [
        {},
        {"link": "identity", "intercept": 0.0, "features": [], "terms": [{}]},
        {"link": "identity", "intercept": 10**400, "features": [], "terms": []},
    ],
)
def test_a_model_that_describes_none_is_refused_when_it_is_made(path, model):
    resigned(path, model=model)
    with pytest.raises(ModelUnusable, match="does not describe one"):
        Artifact.read(path, "runtime").read_as(Additive.of_document)


@pytest.mark.parametrize("content", [b"", b"\x80\x04K\x01.", b"[" * 100_000, b"[]", b'{"format": '])
def test_what_is_not_an_object_of_json_is_refused(path, content):
    path.write_bytes(content)
    with pytest.raises(SlurmschedError, match=r"is not JSON|is not a model"):
        Artifact.read(path, "runtime")


def test_an_absent_file_and_a_directory_are_named(tmp_path):
    with pytest.raises(ModelUnusable, match="there is no model at"):
        Artifact.read(tmp_path / "none.json", "runtime")
    with pytest.raises(ModelUnusable, match="cannot be read"):
        Artifact.read(tmp_path, "runtime")


def test_a_failed_write_leaves_the_old_file_and_no_draft(path):
    with pytest.raises(ValueError, match="JSON compliant"):
        Artifact("runtime", 0.0, float("inf"), {}, {}).write(path)
    assert Artifact.read(path, "runtime") == KEPT
    assert os.listdir(path.parent) == [path.name]
