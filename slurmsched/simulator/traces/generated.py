"""Generated workloads by name: ``synthetic:JOBS[:LOAD]``, or a TOML file with parameters."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_type_hints

from ..toml_file import checked, read_toml
from ..workload.synthetic import SyntheticSpec
from ..workload.synthetic_users import SyntheticUsers
from .trace import TraceError

PREFIX = "synthetic:"
SUFFIX = ".toml"


def spec_of(text: str, cluster_gpus: int) -> SyntheticSpec | None:
    """Return the parameters that *text* names; None where it names a file of jobs.

    The load is that of a cluster of *cluster_gpus* unless the TOML file gives another number, and jobs are no larger
    unless it gives a mix. TraceError or ConfigError for invalid parameters.
    """
    if not (text.startswith(PREFIX) or text.endswith(SUFFIX)):
        return None
    parts = _named(text) if text.startswith(PREFIX) else _written(text)
    parts = {"cluster_gpus": cluster_gpus} | parts
    usual = SyntheticSpec().gpu_mix
    parts.setdefault("gpu_mix", tuple((gpus, weight) for gpus, weight in usual if gpus <= cluster_gpus))
    try:
        return SyntheticSpec(**parts)
    except ValueError as error:
        raise TraceError(f"making the trace {text}: {error}") from error


def _named(text: str) -> dict[str, Any]:
    jobs, _, load = text.removeprefix(PREFIX).partition(":")
    try:
        return {"jobs": int(jobs)} | ({"load": float(load)} if load else {})
    except ValueError as error:
        raise TraceError(f"making the trace {text}: accepted are synthetic:JOBS and synthetic:JOBS:LOAD") from error


def _written(path: str) -> dict[str, Any]:
    document = read_toml(path, {"workload": dict, "gpu_mix": dict, "habits": dict})
    parts = checked(f"{path}: [workload]", document.get("workload", {}), _kinds(SyntheticSpec))
    if "gpu_mix" in document:
        parts["gpu_mix"] = tuple(_mix(path, document["gpu_mix"]))
    if "habits" in document:
        try:
            parts["habits"] = SyntheticUsers(**checked(f"{path}: [habits]", document["habits"], _kinds(SyntheticUsers)))
        except ValueError as error:
            raise TraceError(f"{path}: [habits]: {error}") from error
    return parts


def _kinds(of: type) -> dict[str, type]:
    hints = get_type_hints(of)
    return {f.name: hints[f.name] for f in fields(of) if hints[f.name] in (int, float, str, bool)}


def _mix(path: str, text: dict[str, Any]) -> list[tuple[int, float]]:
    weights = checked(f"{path}: [gpu_mix]", text, dict.fromkeys(text, float))
    if not all(gpus.isascii() and gpus.isdigit() for gpus in weights):
        raise TraceError(f"{path}: [gpu_mix]: accepted are GPUs = weight, such as 8 = 0.25")
    return [(int(gpus), weight) for gpus, weight in weights.items()]
