"""Columns of jobs from the texts of squeue: each function takes one list of texts for each field that it reads.

A text in a form that only a newer release has becomes the neutral value, never an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from .columns import BoolArray, FloatArray, IntArray, Labels
from .text.tres import NOTHING, count, gpus_in, last_of_each, memory_mib, requests_in, slots_in

T = TypeVar("T")

NO_NUMBER = 2**31
"""Numbers of nodes and tasks from which on Slurm has none.

slurmctld 22.05 shows 4294967295 of a job that names a partition which its owner may not use, and counts its GPUs by it.
"""


def lenient(reader: Callable[[str], T], text: str, otherwise: T) -> T:
    """Return what *reader* makes of *text*; *otherwise* where there is nothing, or nothing that it can read."""
    if text in NOTHING:
        return otherwise
    try:
        return reader(text)
    except ValueError:
        return otherwise


def each(texts: list[str], reader: Callable[[str], Any], otherwise: Any, dtype: Any) -> Any:
    """Return an array of *reader* of each text, called once per distinct text; *otherwise* where it fails."""
    distinct = Labels.of(texts)
    return distinct.map([lenient(reader, text, otherwise) for text in distinct.names], dtype)


def ids(texts: list[str]) -> IntArray:
    """Return whole numbers; ValueError for anything else."""
    return np.array(texts, dtype=np.int64)


def numbers(texts: list[str]) -> IntArray:
    """Return whole numbers; 0 for anything else."""
    try:
        return np.array(texts, dtype=np.int64)
    except (ValueError, OverflowError):
        return np.array([lenient(int, text, 0) for text in texts], dtype=np.int64)


def times(texts: list[str]) -> FloatArray:
    """Return Unix seconds; NaN for anything else."""
    try:
        return np.array(texts, dtype=np.int64).astype(np.float64)
    except (ValueError, OverflowError):
        return np.array([float(text) if text.isdecimal() else np.nan for text in texts], dtype=np.float64)


def labels(texts: list[str]) -> Labels:
    """Return texts, empty where Slurm has none."""
    column = Labels.of(texts)
    return column.renamed("" if text in {"(null)", "N/A"} else text for text in column.names)


def is_one(texts: list[str]) -> list[bool]:
    """Return True where the text is ``1``."""
    return [text == "1" for text in texts]


def is_not_one(texts: list[str]) -> list[bool]:
    """Return True where the text is not ``1``."""
    return [text != "1" for text in texts]


def is_given(*fields: list[str]) -> BoolArray:
    """Return True where one of the fields has a value."""
    given = [Labels.of(texts) for texts in fields]
    found: BoolArray = np.any([one.map([t not in NOTHING for t in one.names], np.bool_) for one in given], axis=0)
    return found


def array_ids(arrays: list[str], tasks: list[str]) -> IntArray:
    """Return the ids of arrays; 0 for a job without a task number."""
    array_id = numbers(arrays)
    array_id[[text in NOTHING for text in tasks]] = 0
    return array_id


def task_id(text: str) -> int:
    """Return the number of one task; -1 for an expression of several."""
    return int(text) if text.isdecimal() else -1


def tasks_in(text: str) -> int:
    """Count the tasks in an array expression such as ``1-10:2,15%4``."""
    total = 0
    for part in text.partition("%")[0].split(","):
        span, _, step = part.partition(":")
        low, _, high = span.partition("-")
        total += (int(high or low) - int(low)) // int(step or 1) + 1
    return max(total, 1)


def array_limit(text: str) -> int:
    """Return the most tasks of ``1-10%4`` that run at once; 0 where there is no such limit."""
    return int(text.partition("%")[2] or 0)


def least_and_most_nodes(tres: str, nodes: str, most: str) -> tuple[int, int]:
    """Return the range of nodes that a pending job asks for, from the texts of tres, NumNodes and MaxNodes; 0 unknown.

    The TRES have the least. NumNodes is what slurmctld took last to be on hand, often the most of a range, and stays
    so for a moment after a change to fewer. Without a MaxNodes it is the best guess at the most.
    """
    least = lenient(count, part_of(tres, "node"), 0) or lenient(count, nodes, 0)
    return least, lenient(count, most, 0) or max(least, lenient(count, nodes, 0))


def node_counts(nodes: list[str], tres: list[str]) -> IntArray:
    """Return the numbers of nodes: those that Slurm counts, else those requested, else 1."""
    counted = each(tres, lambda text: count(part_of(text, "node")), 0, np.int64)
    return np.asarray(np.where(counted > 0, counted, each(nodes, count, 1, np.int64)))


def tasks_of(text: str) -> int:
    """Return a number of tasks; 0 where Slurm has none."""
    number = count(text)
    return number if number < NO_NUMBER else 0


def cpus_in(text: str) -> int:
    """Return the CPUs in a TRES text such as ``cpu=4,mem=2000M,node=4``."""
    return lenient(count, part_of(text, "cpu"), 0)


def mib_in(text: str) -> float:
    """Return the MiB in such a text."""
    return lenient(memory_mib, part_of(text, "mem"), 0.0)


def gpus_per_gpu(text: str) -> int:
    """Return the number beside ``gpu`` in a text such as ``gres:gpu:4``."""
    return gpus_in(text)[0]


def part_of(tres: str, name: str) -> str:
    """Return the amount of *name* in a TRES text such as ``cpu=4,mem=2000M,node=4``; empty where it has none."""
    return next((part.partition("=")[2] for part in tres.split(",") if part.startswith(f"{name}=")), "")


def requests(job: list[str], node: list[str]) -> Labels:
    """Return the generic resources requested for the job and for each node."""
    pairs = zip(job, node, strict=True)
    return Labels.of([",".join(last_of_each(text) for text in pair if text not in NOTHING) for pair in pairs])


def by_task(socket: list[str], task: list[str]) -> BoolArray:
    """Return True where a job asks for generic resources by task or by socket."""
    distinct = Labels.of([f"{one},{other}" for one, other in zip(task, socket, strict=True)])
    asks: BoolArray = distinct.map([bool(requests_in(text)) for text in distinct.names], np.bool_)
    return asks


def gpus_and_types(*fields: list[str]) -> tuple[IntArray, Labels]:
    """Return GPUs per job and their type: Slurm's total where it counts GPUs, else the sum of the request."""
    rows = list(zip(*fields, strict=True))
    by_row = {row: _gpus_of(*row) for row in set(rows)}
    found = [by_row[row] for row in rows]
    return np.array([gpus for gpus, _ in found], dtype=np.int64), Labels.of([kind for _, kind in found])


def _gpus_of(nodes: str, tasks: str, tres: str, job: str, node: str, socket: str, task: str) -> tuple[int, str]:
    counted = lenient(gpus_in, ",".join(part for part in tres.split(",") if part.startswith("gres")), (0, ""))
    gpus_and_kind = (0, "")
    fewest = part_of(tres, "node") or nodes  # of a range of nodes, and NumNodes is often the most
    if lenient(count, fewest, 1) >= NO_NUMBER:
        counted, fewest = (0, counted[1]), "1"
    by_task = str(lenient(tasks_of, tasks, 1))
    for text, times_text in ((job, "1"), (node, fewest), (socket, fewest), (task, by_task)):
        gpus, kind = lenient(gpus_in, last_of_each(text), (0, ""))
        if gpus:
            gpus_and_kind = (gpus * max(lenient(count, times_text, 1), 1), kind)
            break
    if not counted[0] and not gpus_and_kind[0]:  # GPUs that it shares
        gpus_and_kind = (len(slots_in(job)) + len(slots_in(node)) * max(lenient(count, fewest, 1), 1), "")
    return (counted[0] or gpus_and_kind[0], counted[1] or gpus_and_kind[1])
