"""Slots of shared GPUs, by the GRES of nodes."""

from __future__ import annotations

from collections.abc import Mapping

from ..cluster.text.hostlist import fold
from ..cluster.text.tres import gpus_in, slots_on


def without_slots(gres: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return the nodes with unshared GPUs that lack slots, as a host list, and all types of slots."""
    slots = {node: slots_on(text) for node, text in gres.items()}
    shared = {node for node, has in slots.items() if max(has.values(), default=0) > 1}
    needed = {gpu for node in shared for gpu in slots[node]}
    alone = [node for node, text in gres.items() if node not in shared and gpus_in(text)[0]]
    return fold(node for node in alone if not slots[node].keys() >= needed), [f"i{gpu}" for gpu in sorted(needed)]
