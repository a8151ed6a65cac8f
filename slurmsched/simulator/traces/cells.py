"""Conversions of cells: each function turns the texts of a column into values.

They raise ``ValueError`` saying what is accepted. Many texts are converted at once; to find the one that failed,
convert them one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray, Labels

Cell = Callable[[Sequence[str]], Any]

_UNKNOWN = frozenset(("", "none", "nan", "null", "unknown", "n/a", "nat"))
_TRUE, _FALSE = frozenset(("1", "true", "yes")), frozenset(("0", "false", "no", ""))
_MOST = 2**53  #: above this, floats skip whole numbers


def text(texts: Sequence[str]) -> Labels:
    """Convert any text."""
    numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    return Labels(np.fromiter(map(numbers.__getitem__, texts), np.int64, len(texts)), tuple(numbers))


def number(texts: Sequence[str]) -> FloatArray:
    """Convert finite numbers; NaN where the text marks an unknown one."""
    return _finite(texts, _number)


def limit(texts: Sequence[str]) -> FloatArray:
    """Convert seconds above zero; infinite where there is no limit."""
    return np.asarray(_each(texts, _limit))


def whole(texts: Sequence[str]) -> IntArray:
    """Convert whole numbers from 0 on; ``4.0`` is one."""
    try:
        numbers = np.fromiter(map(int, texts), np.int64, len(texts))
    except (ValueError, OverflowError):
        numbers = None
    if numbers is None or (len(numbers) and numbers.min() < 0):
        return np.array([_whole(text) for text in texts], dtype=np.int64)
    return numbers


def whole_or_none(texts: Sequence[str]) -> IntArray:
    """Convert whole numbers from 0 on; 0 where the text marks an unknown one."""
    return whole([("0" if text.strip().lower() in _UNKNOWN else text) for text in texts])


def moment(texts: Sequence[str]) -> FloatArray:
    """Convert to Unix seconds; NaN where the text marks an unknown time. A date without an offset is taken as UTC."""
    # Fast path: all like 2017-10-09 07:01:55, without an offset, about which NumPy would only warn.
    if {*map(len, texts)} == {19} and all(text[16] == ":" and text[18].isdigit() for text in texts):
        try:
            return np.array(texts, dtype="datetime64[s]").astype(np.int64).astype(np.float64)
        except ValueError:
            pass
    return _finite(texts, _moment)


def flag(texts: Sequence[str]) -> BoolArray:
    """Convert yes or no."""
    return np.asarray(_each(texts, _flag, np.bool_))


def positive(texts: Sequence[str]) -> FloatArray:
    """Convert finite numbers above 0."""
    return np.asarray(_each(texts, _positive))


def distinct(meaning: Callable[[str], float], dtype: type = np.float64) -> Cell:
    """Return a conversion that computes *meaning* once per distinct text."""
    return partial(_each, meaning=meaning, dtype=dtype)


def _each(texts: Sequence[str], meaning: Callable[[str], float], dtype: type = np.float64) -> Any:
    means = {text: meaning(text) for text in set(texts)}
    return np.fromiter(map(means.__getitem__, texts), dtype, len(texts))


def _finite(texts: Sequence[str], meaning: Callable[[str], float]) -> FloatArray:
    """Convert texts by ``float`` where that gives finite numbers; else by their *meaning*."""
    try:
        numbers = np.fromiter(map(float, texts), np.float64, len(texts))
    except ValueError:
        numbers = None
    if numbers is None or not np.isfinite(numbers).all():
        return np.array([meaning(text) for text in texts], dtype=np.float64)
    return numbers


def _number(text: str) -> float:
    if text.strip().lower() in _UNKNOWN:
        return math.nan
    try:
        value = float(text)
    except ValueError:
        value = math.inf
    if math.isinf(value):
        raise ValueError(f"{text!r} is no number: accepted are 12, 0.5, 1e6, and nothing where it is not known")
    return value


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise ValueError(f"{text!r} is no number above 0: accepted are 12, 0.5, 1e6")
    return value


def _limit(text: str) -> float:
    if text.strip().lower() in _UNKNOWN:
        return math.inf
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value > 0:
        raise ValueError(f"{text!r} is no time limit: accepted are seconds above 0, inf, and nothing for no limit")
    return value


def _whole(text: str) -> int:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (0 <= value < _MOST and value == int(value)):
        raise ValueError(f"{text!r} is no count: accepted are whole numbers from 0 on")
    return int(value)


def _moment(text: str) -> float:
    if text.strip().lower() in _UNKNOWN:
        return math.nan
    try:
        value = float(text)
    except ValueError:
        value = _dated(text)
    if math.isfinite(value):
        return value
    raise ValueError(
        f"{text!r} is no time: accepted are Unix seconds, 2017-10-09 07:01:55 (UTC), 2017-10-09T07:01:55+02:00,"
        " and nothing where it is not known"
    )


def _dated(text: str) -> float:
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        return math.inf
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def _flag(text: str) -> bool:
    word = text.strip().lower()
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    raise ValueError(f"{text!r} is neither yes nor no: accepted are 1, true, yes, 0, false, no and nothing")
