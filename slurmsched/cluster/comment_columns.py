"""Columns of what jobs ask for in their comments: a comment is parsed where a table of jobs is made, nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .columns import Labels
from .text.comment import CommentOptions, ValueStep, read
from .text.deadline_time import Deadline


def columns_of_comments(comment: Labels, wanted: Mapping[str, tuple[Any, Any, Any]]) -> dict[str, Any]:
    """Return columns of jobs with these comments; malformed items count as absent.

    Each is *wanted* by the function of the parsed options that makes its value, its type, None for texts, and the value
    that stands for none. Without a function it is the problem of the comment, in words.
    """
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
    rows = Labels(codes, tuple(map(str, range(len(parsed)))))
    columns: dict[str, Any] = {}
    for name, (value_of, dtype, none) in wanted.items():
        values = [problem if value_of is None else value_of(options) for options, problem in parsed]
        if dtype is None:
            texts = tuple(value or "" for value in values)
            columns[name] = Labels(codes, texts).renamed(texts)
        else:
            columns[name] = rows.map([none if value is None else value for value in values], dtype)
    return columns


def soft_steps(text: str) -> tuple[ValueStep, ...]:
    """Return the steps that a row of the column ``steps`` stands for."""
    return tuple(map(_step, text.split(";"))) if text else ()


def steps_text(steps: tuple[ValueStep, ...]) -> str:
    """Return the text of *steps* in the column ``steps``."""
    return ";".join(f"{step.value!r} {step.by.since} {step.by.at_s}" for step in steps)


def _step(text: str) -> ValueStep:
    value, since, at_s = text.split(" ")
    return ValueStep(float(value), Deadline(int(at_s), since))  # type: ignore[arg-type]  # steps_text wrote it
