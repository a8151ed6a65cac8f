"""Columns of nodes and partitions from the texts of sinfo: each function takes one list of texts for each field."""

from __future__ import annotations

import re

import numpy as np

from ..errors import ConfigError
from .columns import BoolArray, FloatArray, IntArray, Labels
from .text.gres_request import gres_items
from .text.tres import gpus_by_type, gpus_in, seconds, slots_on

_WHOLE = re.compile(r"([0-9]{1,15})(K?)")
_DECIMAL = re.compile(r"[0-9]{1,12}(\.[0-9]{1,6})?")


def or_empty(text: str) -> str:
    """Return *text*, empty where Slurm has none."""
    return "" if text in {"(null)", "N/A"} else text


def as_it_is(texts: list[str]) -> Labels:
    """Return texts as sinfo prints them."""
    return Labels.of(texts)


def or_none(texts: list[str]) -> Labels:
    """Return texts, empty where Slurm has none."""
    return Labels.of(map(or_empty, texts))


def whole(texts: list[str]) -> IntArray:
    """Return whole numbers; sinfo writes the CPUs of a node with 2,048 as 2K. 0 for anything else."""
    found = [_WHOLE.fullmatch(text) for text in texts]
    return np.array([int(one[1]) * (1024 if one[2] else 1) if one else 0 for one in found], dtype=np.int64)


def allocated(texts: list[str]) -> IntArray:
    """Return the CPUs in use of texts such as 32/32/0/64."""
    return whole([text.partition("/")[0] for text in texts])


def mib(texts: list[str]) -> FloatArray:
    """Return memory in MiB."""
    return whole(texts).astype(np.float64)


def decimals(texts: list[str]) -> FloatArray:
    """Return numbers such as 3.25; NaN for anything else, such as N/A of a node that never answered."""
    return np.array([float(text) if _DECIMAL.fullmatch(text) else np.nan for text in texts], dtype=np.float64)


def gpu_counts(gres: list[str]) -> IntArray:
    """Return the GPUs of each node."""
    distinct = Labels.of(gres)
    found: IntArray = distinct.map([gpus_in(or_empty(text))[0] for text in distinct.names], np.int64)
    return found


def gpus_in_use(gres: list[str], used: list[str]) -> IntArray:
    """Return the GPUs in use; all of them where GPUs are shared."""
    distinct = Labels.of(gres)
    shares = distinct.map([any(count > 1 for count in slots_on(text).values()) for text in distinct.names], np.bool_)
    return np.where(shares, gpu_counts(gres), gpu_counts(used))


def first_type(gres: list[str]) -> Labels:
    """Return the type of the GPUs of each node; of a node with several the first."""
    distinct = Labels.of(gres)
    return distinct.renamed(gpus_in(or_empty(text))[1] for text in distinct.names)


def all_types(gres: list[str]) -> Labels:
    """Return the GPUs by type of nodes with several."""
    distinct = Labels.of(gres)
    return distinct.renamed(several_types(or_empty(text)) for text in distinct.names)


def types_used(gres: list[str], used: list[str]) -> Labels:
    """Return the GPUs in use by type of nodes with several, as a100=1+v100=0."""
    several = all_types(gres)
    if not any(several.names):
        return several
    return Labels.of(several_types(or_empty(busy)) if there else "" for there, busy in zip(several, used, strict=True))


def other_gres(gres: list[str]) -> Labels:
    """Return the generic resources beside GPUs of each node, as bw=10+tape:lto=2."""
    distinct = Labels.of(gres)
    return distinct.renamed("+".join(_other_items(or_empty(text))) for text in distinct.names)


def _other_items(gres: str) -> list[str]:
    try:
        others = gres_items(re.sub(r"\([^)]*\)|\bno_consume:", "", gres))[1]
    except ConfigError:
        return []
    return [f"{name}{':' * bool(kind)}{kind}={many}" for name, kind, many in others]


def several_types(gres: str) -> str:
    """Return the GPUs of a node with several types as a100=2+v100=2; empty of any other node."""
    counts = gpus_by_type(gres)
    return "+".join(f"{name}={many}" for name, many in counts.items()) if len(counts) > 1 else ""


def limits_s(texts: list[str]) -> FloatArray:
    """Return time limits in seconds."""
    return np.array([seconds(text) for text in texts], dtype=np.float64)


def is_up(texts: list[str]) -> BoolArray:
    """Return True where the text is up."""
    return np.array([text == "up" for text in texts], dtype=np.bool_)


def is_default(marked: list[str], names: list[str]) -> BoolArray:
    """Return True for the partition that sinfo marks with a star."""
    return np.array([one == f"{name}*" for one, name in zip(marked, names, strict=True)], dtype=np.bool_)
