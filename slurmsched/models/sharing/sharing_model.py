"""Predictions of how much a job slows another down on its GPU, from its measured use (Lucid section 3.5.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NotRequired, Self, TypedDict

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray, Table
from ..ebm.additive import isotonic
from . import decision_tree
from .decision_tree import Node
from .speed_curve import SpeedCurve

TINY, MEDIUM, JUMBO = 0, 1, 2
NAMES = ("Tiny", "Medium", "Jumbo")
TINY_SPEED, MEDIUM_SPEED = 0.95, 0.85  #: least mean speed beside others, relative to alone, of each class
GOOD_SPEED = MEDIUM_SPEED  #: least mean speed of a pair that keeps its speed
LEAST = 3  #: configurations in a leaf

_WORDS = {
    "gpu_util": "GPU utilisation",
    "memory_util": "memory-controller utilisation",
    "memory_mib": "GPU memory in MiB",
    "amp": "mixed precision",
}
_HEAVIER = ("gpu_util", "memory_util", "memory_mib")


@dataclass(frozen=True, eq=False)
class GpuUse(Table):
    """The use that jobs make of one of their GPUs while they have it alone. NaN is "not measured"."""

    gpu_util: FloatArray  #: 0..1
    memory_util: FloatArray  #: 0..1, of the memory controller
    memory_mib: FloatArray
    amp: FloatArray  #: 1 where the job declares mixed precision

    def columns(self) -> dict[str, FloatArray]:
        """Return the features: unmeasured use counts as the heaviest, undeclared precision as full."""
        heavy = {name: np.nan_to_num(getattr(self, name), nan=np.inf, posinf=np.inf) for name in _HEAVIER}
        return heavy | {"amp": np.nan_to_num(self.amp)}


class PairsDocument(TypedDict):
    """A pair curve as JSON."""

    sums: list[float]
    chances: list[float]


class SpeedsDocument(TypedDict):
    """A speed curve as JSON."""

    sums: list[float]
    speeds: list[float]


class SharingDocument(TypedDict):
    """A sharing model as JSON."""

    tree: dict[str, object]
    pairs: PairsDocument
    speeds: SpeedsDocument
    prior: NotRequired[SpeedsDocument]  #: the speed curve before the site's jobs corrected it
    kept: NotRequired[dict[str, float]]


@dataclass(frozen=True, eq=False)
class PairCurve:
    """The chance that a pair keeps its speed, by the sum of its GPU utilisations: steps that never rise."""

    sums: FloatArray  #: where each step ends, increasing
    chances: FloatArray  #: 0..1

    @classmethod
    def fit(cls, sums: FloatArray, good: BoolArray) -> Self:
        """Fit the curve closest to the measured pairs (isotonic regression)."""
        order = np.argsort(sums, kind="stable")
        ordered, share = sums[order], good[order].astype(np.float64)
        # Pairs with one sum share one chance.
        distinct, first, pairs = np.unique(ordered, return_index=True, return_counts=True)
        share = np.add.reduceat(share, first) / pairs if len(share) else share
        chances = -isotonic(-share, pairs.astype(np.float64))
        ends = np.append(np.diff(chances) != 0.0, True)[: len(chances)]
        return cls(distinct[ends], chances[ends])

    def chance(self, sums: FloatArray) -> FloatArray:
        """Return the chance for each sum; 0 above the largest measured one and where a utilisation is missing."""
        places = np.searchsorted(self.sums, sums, side="left")
        chances: FloatArray = np.append(self.chances, 0.0)[places]
        return chances

    def limit(self, chance: float) -> float:
        """Return the largest sum at which pairs have at least this *chance*; -infinity where there is none."""
        enough = np.flatnonzero(self.chances >= chance)
        return float(self.sums[enough[-1]]) if len(enough) else -np.inf


@dataclass(frozen=True, eq=False)
class SharingModel:
    """A pruned tree for the share score of a job, the pair curve and the speed curve. Immutable.

    The tree learns the score as a number that never falls as utilisation or memory grows, and rounds it: a heavier job
    never gets a lower score than a lighter one.
    """

    root: Node
    pairs: PairCurve
    speeds: SpeedCurve
    prior: SpeedCurve | None = None  #: the speed curve before the site's own jobs corrected it; None without those
    kept: Mapping[str, float] = field(default_factory=dict)  #: kinds of jobs that keep less, and the part of the curve

    @classmethod
    def fit(cls, use: GpuUse, score: IntArray, sums: FloatArray, speeds: FloatArray, *, seed: int) -> Self:
        """Train on configurations of known *score*, and on pairs with the *sums* of their GPU utilisations.

        *speeds*, of shape (pairs, 2), are those of both while sharing, relative to alone; a pair kept its speed if
        their mean is at least GOOD_SPEED. ValueError without a configuration, or where one was not measured in full.
        """
        columns = use.columns()
        if not len(use) or not all(np.isfinite(column).all() for column in columns.values()):
            raise ValueError("a sharing model needs configurations that were measured in full")
        root = decision_tree.grow(columns, score.astype(np.float64), rising=_HEAVIER, least=LEAST, seed=seed)
        curve = SpeedCurve.fit(np.repeat(sums, 2), speeds.ravel()) if len(sums) else SpeedCurve.flat(MEDIUM_SPEED)
        return cls(root, PairCurve.fit(sums, speeds.mean(axis=1) >= GOOD_SPEED), curve)

    def score(self, use: GpuUse) -> IntArray:
        """Return TINY, MEDIUM or JUMBO for each row."""
        return _rounded(decision_tree.predict(self.root, use.columns()))

    def why(self, use: GpuUse, row: int) -> str:
        """Return the path of one row through the tree in words."""
        steps, leaf = decision_tree.path(
            self.root, {name: float(column[row]) for name, column in use.columns().items()}
        )
        name = NAMES[int(_rounded(np.array([leaf.value]))[0])]
        conditions = [
            f"{_WORDS[s.feature]} {_number(s.value)} {'<=' if s.below else '>'} {_number(s.cut)}" for s in steps
        ]
        return ", ".join(
            [*conditions, f"so {name} (mean score {leaf.value:.2f} of {leaf.rows} measured configurations)"]
        )

    def text(self) -> str:
        """Return the whole tree in words, one line per question and answer."""
        return "\n".join(_lines(self.root, ""))

    def document(self) -> SharingDocument:
        """Return the model as JSON values, without loss."""
        pairs: PairsDocument = {"sums": self.pairs.sums.tolist(), "chances": self.pairs.chances.tolist()}
        speeds: SpeedsDocument = {"sums": self.speeds.sums.tolist(), "speeds": self.speeds.speeds.tolist()}
        found: SharingDocument = {"tree": decision_tree.document(self.root), "pairs": pairs, "speeds": speeds}
        if self.prior is not None:
            found["prior"] = {"sums": self.prior.sums.tolist(), "speeds": self.prior.speeds.tolist()}
            found["kept"] = dict(self.kept)
        return found

    @classmethod
    def of_document(cls, document: SharingDocument) -> Self:
        """Rebuild the model from its `document`. KeyError, TypeError or ValueError where it describes none."""
        root = decision_tree.of_document(document["tree"])
        if unknown := {split.feature for split in _splits(root)} - set(_WORDS):
            raise ValueError(f"the tree asks for {', '.join(sorted(unknown))}")
        sums, chances = (np.array(document["pairs"][key], dtype=np.float64) for key in ("sums", "chances"))
        if sums.ndim != 1 or sums.shape != chances.shape or (np.diff(sums) <= 0.0).any():
            raise ValueError("the pair curve needs as many increasing sums as chances")
        prior = SpeedCurve.of(**document["prior"]) if "prior" in document else None
        kept = {str(kind): float(part) for kind, part in document.get("kept", {}).items()}
        if not all(0.0 < part <= 1.0 for part in kept.values()):
            raise ValueError("a kind of jobs keeps a part of the curve above 0 and up to 1")
        return cls(root, PairCurve(sums, chances), SpeedCurve.of(**document["speeds"]), prior, kept)


def score_of_speed(speed: FloatArray, tiny: float = TINY_SPEED, medium: float = MEDIUM_SPEED) -> IntArray:
    """Compute the share score by the paper's rule, from the mean speed of the pairs a configuration was measured in.

    A configuration measured in no pair (NaN) is JUMBO.
    """
    return np.where(speed >= tiny, TINY, np.where(speed >= medium, MEDIUM, JUMBO)).astype(np.int64)


def _rounded(values: FloatArray) -> IntArray:
    return np.clip(np.floor(values + 0.5), TINY, JUMBO).astype(np.int64)


def _number(value: float) -> str:
    return "not measured" if np.isinf(value) else f"{value:.4g}"


def _splits(node: Node) -> list[decision_tree.Split]:
    return [node, *_splits(node.below), *_splits(node.above)] if isinstance(node, decision_tree.Split) else []


def _lines(node: Node, indent: str) -> list[str]:
    if isinstance(node, decision_tree.Leaf):
        name = NAMES[int(_rounded(np.array([node.value]))[0])]
        return [f"{indent}{name} (mean score {node.value:.2f} of {node.rows} measured configurations)"]
    words, cut = _WORDS[node.feature], _number(node.cut)
    return [
        f"{indent}if {words} <= {cut}:",
        *_lines(node.below, indent + "  "),
        f"{indent}else:",
        *_lines(node.above, indent + "  "),
    ]
