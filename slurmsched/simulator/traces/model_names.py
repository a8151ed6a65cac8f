"""Properties of the models that traces name."""

from __future__ import annotations

from ...cluster.columns import BoolArray, Labels

#: Nearly all weights are in one or two layers, so spreading the job over nodes costs much speed.
_SKEWED = ("vgg", "alexnet")


def sensitive(model: Labels) -> BoolArray:
    """Mark jobs that run much slower when spread over more nodes than they need, by their model's name."""
    return model.map([name.lower().startswith(_SKEWED) for name in model.names], bool)
