"""What is known about the models that traces name."""

from __future__ import annotations

from ...cluster.columns import BoolArray, Labels

#: Nearly all their weights are in one or two layers, so that spreading them over nodes costs them dearly.
_SKEWED = ("vgg", "alexnet")


def sensitive(model: Labels) -> BoolArray:
    """Which jobs run much slower when spread over more nodes than they need, going by their model's name."""
    return model.map([name.lower().startswith(_SKEWED) for name in model.names], bool)
