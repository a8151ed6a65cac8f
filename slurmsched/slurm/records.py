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
    width = len(fields)
    good = [record for record in records if record.count(field_mark) == width - 1]
    refused = len(records) - len(good) + bool(rest.strip())
    texts = field_mark.join(good).split(field_mark) if good else []
    columns = [texts[at::width] for at in range(width)]
    columns[0] = [value.lstrip("\n") for value in columns[0]]
    return Columns(dict(zip(fields, columns, strict=True)), refused)
