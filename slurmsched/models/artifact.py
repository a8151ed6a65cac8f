"""Trained models on disk, as JSON with the data span, the scores and a digest. Never pickle."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

from ..errors import ModelUnusable

FORMAT = "slurmsched model"
SCHEMA = 1  #: the newest that this version writes and reads
MAX_B = 512 << 20  #: a larger file is not read

_WRONG = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError)
"""Errors that malformed JSON or absurd numbers can raise when a model is read."""

T = TypeVar("T")


@dataclass(frozen=True)
class Artifact:
    """A trained model with its data span and scores, and a digest that reveals changes.

    The digest finds damage and careless edits. It is no signature: anyone who can write the file can write its digest.
    """

    kind: str  #: ``runtime``, ``throughput``, ``sharing``, ...
    trained_from_s: float  #: Unix time of the first event it was trained on
    trained_until_s: float  #: Unix time; the model uses no data from then on
    scores: Mapping[str, float]  #: results of its backtest, by name
    model: Mapping[str, Any]  #: JSON values, from which `read_as` builds the model

    @property
    def digest(self) -> str:
        """The SHA-256 of all other content, in hex."""
        return digest_of(self._content())

    def write(self, path: Path) -> None:
        """Write it to *path* atomically: a reader sees the old file or the new one. OSError where that fails."""
        content = _canonical(self._content() | {"digest": self.digest})
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            with draft.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)

    @classmethod
    def read(cls, path: Path, kind: str) -> Self:
        """Read the artifact of this *kind* at *path*. ModelUnusable says why it cannot be used."""
        content = _content(path)
        if content.get("format") != FORMAT:
            raise ModelUnusable(f"{path} is not a model that slurmsched wrote")
        schema = content.get("schema")
        if not isinstance(schema, int) or schema > SCHEMA:
            raise ModelUnusable(f"{path} has schema {schema!r}; this version of slurmsched reads up to {SCHEMA}")
        written = content.pop("digest", None)
        try:
            found = digest_of(content)
        except ValueError:
            found = "none"
        if written != found:
            raise ModelUnusable(f"{path} was changed after it was written: digest {written!r}, content {found!r}")
        if content.get("kind") != kind:
            raise ModelUnusable(f"{path} holds a model of kind {content.get('kind')!r}, not {kind!r}")
        try:
            span = float(content["trained_from_s"]), float(content["trained_until_s"])
            scores = dict(content["scores"])
            if not all(isinstance(value, int | float) and math.isfinite(value) for value in scores.values()):
                raise ValueError("a score that is no number")
            return cls(kind, *span, scores, dict(content["model"]))
        except _WRONG as error:
            raise ModelUnusable(f"{path} lacks what every model has: {error!r}") from error

    def read_as(self, reader: Callable[[Any], T]) -> T:
        """Build the model with *reader*, an ``of_document``. ModelUnusable where the document describes no model."""
        try:
            return reader(self.model)
        except _WRONG as error:
            why = f"the {self.kind} model does not describe one: {error!r}; slurmsched train makes a new one"
            raise ModelUnusable(why) from error

    def _content(self) -> dict[str, object]:
        return {
            "format": FORMAT,
            "schema": SCHEMA,
            "kind": self.kind,
            "trained_from_s": self.trained_from_s,
            "trained_until_s": self.trained_until_s,
            "scores": dict(self.scores),
            "model": dict(self.model),
        }


def digest_of(document: Mapping[str, object]) -> str:
    """Return the SHA-256, in hex, of *document* as canonical JSON. ValueError for numbers that are not finite."""
    return hashlib.sha256(_canonical(document)).hexdigest()


def _canonical(document: Mapping[str, object]) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def _content(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            text = file.read(MAX_B + 1)
    except FileNotFoundError as error:
        raise ModelUnusable(f"there is no model at {path}") from error
    except OSError as error:
        raise ModelUnusable(f"{path} cannot be read: {error.strerror}") from error
    if len(text) > MAX_B:
        raise ModelUnusable(f"{path} is larger than {MAX_B} bytes")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelUnusable(f"{path} is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise ModelUnusable(f"{path} is not a model that slurmsched wrote")
    return content
