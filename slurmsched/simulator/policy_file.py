"""Policies defined in a TOML file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..policies.admission import load_of
from ..policies.contract import PREEMPTIONS, PROFILINGS, SHARINGS, STOPPINGS, find_ordering
from ..policies.preemption import Lease
from ..policies.presets import preset_of
from ..policies.registry import Registry
from .policy_keys import OWN_OPTIONS, POLICY_KEYS, PolicyKey
from .setup import Setup
from .toml_file import checked, read_toml

_ON_CLUSTERS: dict[str, Registry[Any]] = {
    "preemption": PREEMPTIONS,
    "profiling": PROFILINGS,
    "stopping": STOPPINGS,
}
"""Parts that decide about promises, profiling and reports of jobs, which a policy file does not have."""

_DAEMONS = {
    "admission": str,
    "preset": str,
    "starvation_s": float,
    "shadow": str,
    "auto": str,
    "interactive_gpu_hours": float,
    "interactive_names": list,
    "powers": list,
}
"""Other keys of a daemon's ``[policy]``, with their types."""

_NUMBER = PolicyKey("", float, "")


def read_policy(path: str | Path, **otherwise: Any) -> Setup:
    """Read the ``[policy]`` of a file: any part of a Setup; missing parts come from *otherwise*, or from the preset.

    The keys of a daemon's ``[policy]`` are accepted too: there ``slurm`` as a selection or placement stands for the
    executor slurm, without ``sharing``, which needs a ``[share]`` too; ``starvation_s``, ``profiling``, ``stopping``,
    ``shadow``, ``auto``, ``interactive_gpu_hours``, ``interactive_names``, ``powers`` and a ``preemption`` that is no
    lease count on a cluster alone.
    An ``ordering`` or a ``preset`` is required. Without a ``name`` the policy is named after the file.
    ConfigError names the file, the key and what is accepted.
    """
    section = read_toml(path, {"policy": dict}).get("policy")
    if section is None:
        raise ConfigError(f"{path}: there is no [policy]")
    kinds = {"ordering": str} | {key.name: key.kind for key in POLICY_KEYS.values()} | dict.fromkeys(OWN_OPTIONS, str)
    parts = checked(f"{path}: [policy]", section, kinds | _DAEMONS | dict.fromkeys(_ON_CLUSTERS, str))
    for name, value in parts.items():
        if accepted := POLICY_KEYS.get(name, _NUMBER).refusal(value):
            raise ConfigError(f"{path}: [policy]: {name} = {value}: {accepted}")
    for key in ("starvation_s", "auto", "interactive_gpu_hours", "interactive_names", "powers"):
        parts.pop(key, None)
    if not ("ordering" in parts or parts.get("preset")):
        raise ConfigError(f"{path}: [policy] needs an ordering")
    try:
        parts = _simulated(parts)
        if name := parts.pop("preset", ""):
            preset = preset_of(name)._asdict()
            parts = ({} if parts.get("executor") == "slurm" else preset) | {"ordering": preset["ordering"]} | parts
        if "admission" in parts:
            parts["admission"] = load_of(parts["admission"])
        name, ordering = parts.pop("name", Path(path).stem), parts.pop("ordering")
        return replace(Setup.of(ordering, **otherwise | parts), name=name)
    except ConfigError as error:
        raise ConfigError(f"{path}: [policy]: {error}") from error


def _simulated(parts: dict[str, Any]) -> dict[str, Any]:
    """Return the keys of a daemon's ``[policy]`` as parts of a Setup; ConfigError for parts that do not exist."""
    if shadow := parts.pop("shadow", ""):
        find_ordering(shadow)
    for hook, registry in _ON_CLUSTERS.items():
        if hook in parts:
            part = registry.find(parts.pop(hook))
            if isinstance(part.function, Lease):
                parts[hook] = part.line
    for part in ("selection", "placement"):
        if parts.get(part) == "slurm":
            del parts[part]
            parts["executor"] = "slurm"
    if parts.get("executor") == "slurm":  # its [share] is not in this file, and without it no jobs share
        SHARINGS.find(parts.pop("sharing", "none"))
    return parts
