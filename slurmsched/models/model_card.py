"""A page that describes a model: its training data, its scores, its features, and drawings of its tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from markupsafe import Markup

from ..cluster.columns import FloatArray
from ..errors import ModelUnusable
from ..pages.environment import render
from .artifact import Artifact
from .ebm.additive import Additive, AdditiveTerm
from .model_drawing import bars, line, shape
from .registry import ACTOR, RUNTIME, SHARING
from .runtime.intervals import SHARES, STEP, Misses, rolled
from .runtime.model_inputs import WORDS
from .runtime.point_predictors import Ga2m, center_of
from .sharing import decision_tree
from .sharing.sharing_model import SharingModel
from .throughput import ThroughputModel

SUMS = np.arange(0.25, 2.01, 0.25)  #: of GPU utilisations, for which the speed curve is shown
KINDS_SHOWN = 20


@dataclass(frozen=True, eq=False)
class ModelCard:
    """The parts of an artifact that its page shows."""

    artifact: Artifact
    additive: Mapping[str, Additive]  #: its sums of tables, by what they forecast
    text: str  #: the decision tree and further remarks in words; may be empty
    covered: FloatArray  #: share of runs done by the 90 % bound, per STEP held-out runs; empty where unknown
    calibration: Mapping[str, float]  #: share of the held-out runs below each bound, by the share that was promised

    @property
    def importances(self) -> dict[str, dict[str, float]]:
        """Mean absolute score of each term, the weightiest first, by what the tables forecast."""
        found = {}
        for name, model in self.additive.items():
            rows = zip(map(_worded, model.terms), model.importances.tolist(), strict=True)
            found[name] = dict(sorted(rows, key=lambda row: -row[1]))
        return found

    def page(self) -> str:
        """Return one HTML file that loads nothing and sends nothing."""
        artifact = self.artifact
        return render(
            "model.html",
            title=f"{artifact.kind} model",
            lead=f"Trained on {span(artifact)}. Digest {artifact.digest}.",
            scores=[(name, f"{value:.4g}") for name, value in artifact.scores.items()],
            text=self.text.split("\n") if self.text else [],
            figures=list(self._figures()),
        )

    def _figures(self) -> Iterator[tuple[str, str, Markup]]:
        if len(self.covered):
            calibration = ", ".join(f"{share:.0%} for {name}" for name, share in self.calibration.items())
            shares = f"Share of held-out runs below the bounds: {calibration}."
            caption = f"{shares} Below: done by the 90 % bound, per {STEP} runs."
            yield "Calibration", caption, line(self.covered, SHARES[-1])
        for name, model in self.additive.items():
            rows = list(self.importances[name].items())
            yield f"Importance: {name}", "Mean absolute score over the training rows.", bars(rows[:30])
            for term in sorted(model.terms, key=lambda term: -term.importance):
                caption = f"Added to the forecast of {name}; importance {term.importance:.3g}."
                yield _worded(term), caption, shape(model, term)


def model_card(artifact: Artifact) -> ModelCard:
    """Collect what the page of *artifact* shows. ModelUnusable where it describes no model."""
    nothing = np.zeros(0)
    if artifact.kind == SHARING:
        model = artifact.read_as(SharingModel.of_document)
        source = artifact.model.get("source")
        text = model.text() + f"\npairs keep their speed up to a GPU utilisation sum of {model.pairs.limit(0.85):.3f}"
        text += "".join(f"\n{line}" for line in _site_lines(model))
        return ModelCard(artifact, {}, text + (f"\n\n{source}" if source else ""), nothing, {})
    if artifact.kind == ACTOR:
        return ModelCard(artifact, {}, artifact.read_as(_tree_of_actor), nothing, {})
    if artifact.kind != RUNTIME:
        series = artifact.read_as(ThroughputModel.of_document).models
        text = "\n".join(f"{name}: the rolling median" for name, model in series.items() if model is None)
        return ModelCard(artifact, {name: model for name, model in series.items() if model}, text, nothing, {})
    center = artifact.read_as(lambda document: center_of(document["center"]))
    misses = artifact.read_as(lambda document: Misses.of_document(document["misses"]))
    bounds = rolled(misses)
    below = (misses.miss <= bounds.log_factors)[:, bounds.informed]
    whole = below.shape[1] - below.shape[1] % STEP
    covered = below[2, :whole].reshape(-1, STEP).mean(axis=1)
    shares_below = {f"{share:.0%}": float(row.mean()) for share, row in zip(SHARES, below, strict=True) if len(row)}
    if isinstance(center, Ga2m):
        mixed = "\n".join(
            f"jobs of class {kind}: {part.near:.0%} for the {WORDS[part.column]}, "
            f"{part.far:.0%} where the tables are off from it by a factor of {np.exp(part.apart):.1f} or more"
            for kind, part in sorted(center.blend.parts.items())
        )
        return ModelCard(artifact, {"log runtime": center.additive}, mixed, covered, shares_below)
    return ModelCard(artifact, {}, f"forecasts by: {center.kind}", covered, shares_below)


def _tree_of_actor(document: Mapping[str, Any]) -> str:
    """Return the judgement of an actor, and the tree that says what it prefers."""
    if "tree" not in document:
        return str(document["why"])
    lines = "\n".join(decision_tree.lines_of(decision_tree.of_document(document["tree"])))
    return f"{document['why']}\n\nThe larger the score the sooner a job runs. A tree says about the same:\n{lines}"


def _site_lines(model: SharingModel) -> Iterator[str]:
    """Yield the speed curve of the site beside the one before it, and the kinds of jobs that keep less."""
    if model.prior is None:
        return
    yield "speed beside another by the sum of GPU utilisations, of this site and before it measured any:"
    for total, ours, before in zip(SUMS, *(curve.speed(SUMS) for curve in (model.speeds, model.prior)), strict=True):
        yield f"  {total:.2f}: {ours:.2f}, before {before:.2f}"
    kinds = sorted(model.kept.items(), key=lambda item: item[1])
    yield from (f"jobs of {kind} keep {part:.2f} of that" for kind, part in kinds[:KINDS_SHOWN])
    if len(kinds) > KINDS_SHOWN:
        yield f"and {len(kinds) - KINDS_SHOWN} more kinds keep less"


def span(artifact: Artifact) -> str:
    """Return the time span of the training data in words."""
    begin, end = (_date(moment_s) for moment_s in (artifact.trained_from_s, artifact.trained_until_s))
    return f"measurements of {begin}" if begin == end else f"data from {begin} to {end}"


def _worded(term: AdditiveTerm) -> str:
    return " and ".join(WORDS.get(name, name) for name in term.features)


def _date(moment_s: float) -> str:
    try:
        return datetime.fromtimestamp(moment_s, UTC).strftime("%Y-%m-%d")
    except (OverflowError, ValueError, OSError) as error:
        raise ModelUnusable(f"the model was trained at no time there is: {moment_s!r}") from error
