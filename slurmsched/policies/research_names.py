"""The names of the parts of policies that the research registers, so that nobody loads it to know of them."""

from __future__ import annotations

from collections.abc import Mapping

RESEARCH_PARTS: Mapping[str, frozenset[str]] = {
    "ordering": frozenset(
        ("afs-l", "fair", "gandiva", "gavel", "genie", "graphene", "hypersched", "laxity", "slaq", "themis"),
    ),
    "placement": frozenset(("fgd", "fgd-filled", "tiresias-plus")),
    "preset": frozenset(
        (
            *("3sigma", "afs-l", "fair", "gandiva", "genie", "graphene", "hypersched", "laxity", "slaq", "themis"),
            "yarn-cs",
        ),
    ),
    "scaling": frozenset(
        (
            *("fifo", "las", "optimus", "pollux", "sia", "sjf", "srsf", "srtf", "themis", "tiresias"),
            *("gavel-ftf", "gavel-ftf-blind", "gavel-las", "gavel-las-blind"),
            *("gavel-makespan", "gavel-makespan-blind"),
        ),
    ),
    "selection": frozenset(("3sigma", "yarn-cs")),
}
"""Names by hook. A plug-in cannot have one of them."""
