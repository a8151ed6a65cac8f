"""Text answers of Slurm's commands, cut into fields that nobody can forge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Columns:
    """Fields by name, each a list with one text per record, and how many records were refused."""

    by_name: dict[str, list[str]]
    refused: int

    def __getitem__(self, name: str) -> list[str]:
        return self.by_name[name]


def long_format(fields: Sequence[str], field_mark: str, record_mark: str) -> str:
    """The ``-O`` argument of squeue and sinfo that ends each field, and the last of each record, with a mark.

    A field whose width is left out but whose suffix is given is printed whole, without padding.
    """
    return ",".join([*(f"{name}:{field_mark}" for name in fields[:-1]), f"{fields[-1]}:{record_mark}"])


def cut(text: str, fields: Sequence[str], field_mark: str, record_mark: str) -> Columns:
    """The records of *text*; those without exactly one text per field are refused and counted."""
    *records, rest = text.split(record_mark)
    rows = [record.split(field_mark) for record in records]
    width = len(fields)
    good = [row for row in rows if len(row) == width]
    refused = len(rows) - len(good) + bool(rest.strip())
    columns = [list(column) for column in zip(*good, strict=True)] or [[] for _ in fields]
    columns[0] = [value.lstrip("\n") for value in columns[0]]
    return Columns(dict(zip(fields, columns, strict=True)), refused)
