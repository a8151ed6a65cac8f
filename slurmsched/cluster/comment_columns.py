"""Columns of what jobs ask for in their comments: a comment is parsed where a table of jobs is made, nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .columns import Labels
from .text.comment import CommentOptions, Deadline, ValueStep, read

_FLAGS = ("off", "ckpt", "nopack", "noprofile", "amp", "soft")
_NUMBERS: dict[str, tuple[Any, Callable[[CommentOptions], float | None], float]] = {
    "least_gpus": (np.int64, lambda options: options.gpus[0] if options.gpus else None, 0),
    "most_gpus": (np.int64, lambda options: options.gpus[1] if options.gpus else None, 0),
    "coldstart_s": (np.float64, lambda options: options.coldstart_s, 0.0),
    "iterations": (np.int64, lambda options: options.iterations, 0),
    "pace_s": (np.float64, lambda options: options.pace_s, np.nan),
    "done": (np.int64, lambda options: options.done, 0),
    "stop_level": (np.float64, lambda options: options.stop.level if options.stop else None, np.nan),
    "urgency": (np.float64, lambda options: options.urgency, np.nan),
    "busy_level": (np.float64, lambda options: options.busy.level if options.busy else None, np.nan),
    "cpus_least": (np.int64, lambda options: options.cpus[0] if options.cpus else None, 0),
    "cpus_best": (np.int64, lambda options: options.cpus[1] if options.cpus else None, 0),
    "mem_least_mib": (np.int64, lambda options: options.mem_mib[0] if options.mem_mib else None, 0),
    "mem_best_mib": (np.int64, lambda options: options.mem_mib[1] if options.mem_mib else None, 0),
    "batch_least": (np.int64, lambda options: options.batch[0] if options.batch else None, 0),
    "batch_most": (np.int64, lambda options: options.batch[1] if options.batch else None, 0),
    "deadline_at_s": (np.int64, lambda options: options.deadline.at_s if options.deadline else None, 0),
}
"""Columns of numbers: their type, their value, and the value that stands for none."""

_TEXTS: dict[str, Callable[[CommentOptions], str]] = {
    "share_token": lambda options: options.share or "",
    "steps": lambda options: ";".join(map(_step_text, options.steps)),
    "stop": lambda options: options.stop.rule if options.stop else "",
    "busy": lambda options: options.busy.rule if options.busy else "",
    "graph": lambda options: str(options.graph) if options.graph else "",
    "types": lambda options: "+".join(options.types),
    "deadline_since": lambda options: options.deadline.since if options.deadline else "",
}

STORED = ("off", "ckpt")
"""Columns that decision records hold."""

DERIVED = (*(name for name in _FLAGS if name not in STORED), *_NUMBERS, *_TEXTS, "comment_problem")
"""Columns that decision records leave out: decoding derives them from the comment."""


def comment_columns(comment: Labels) -> dict[str, Any]:
    """Return the columns ``STORED`` and ``DERIVED`` of jobs with these comments; malformed items count as absent."""
    parsed: list[tuple[CommentOptions, str | None]] = []
    numbers: dict[int, int] = {}  # comments without tokens share one object, and a queue has many
    which = []
    for text in comment.names:
        options, problem = read(text)
        if id(options) not in numbers:
            numbers[id(options)] = len(parsed)
            parsed.append((options, problem))
        which.append(numbers[id(options)])
    codes = comment.map(which, np.int64)

    def texts(values: list[str]) -> Labels:
        return Labels(codes, tuple(values)).renamed(values)

    flags = {name: [getattr(options, name) for options, _ in parsed] for name in _FLAGS}
    rows = Labels(codes, tuple(map(str, range(len(parsed)))))
    columns: dict[str, Any] = {name: rows.map(values, np.bool_) for name, values in flags.items()}
    for name, (dtype, value, none) in _NUMBERS.items():
        found = [value(options) for options, _ in parsed]
        columns[name] = rows.map([none if one is None else one for one in found], dtype)
    for name, text_of in _TEXTS.items():
        columns[name] = texts([text_of(options) for options, _ in parsed])
    return columns | {"comment_problem": texts([problem or "" for _, problem in parsed])}


def soft_steps(text: str) -> tuple[ValueStep, ...]:
    """Return the steps that a row of the column ``steps`` stands for."""
    return tuple(map(_step, text.split(";"))) if text else ()


def _step_text(step: ValueStep) -> str:
    return f"{step.value!r} {step.by.since} {step.by.at_s}"


def _step(text: str) -> ValueStep:
    value, since, at_s = text.split(" ")
    return ValueStep(float(value), Deadline(int(at_s), since))  # type: ignore[arg-type]  # _step_text wrote it
