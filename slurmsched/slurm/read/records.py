"""Text answers of Slurm's commands, cut into fields that nobody can forge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ...errors import SlurmUnavailable


@dataclass(frozen=True)
class RecordColumns:
    """Fields by name, each a list with one text per record."""

    by_name: dict[str, list[str]]

    def __getitem__(self, name: str) -> list[str]:
        return self.by_name[name]


def long_format(fields: Sequence[str], field_mark: str, record_mark: str) -> str:
    """The ``-O`` argument of squeue and sinfo that ends each field, and the last of each record, with a mark.

    A field whose width is left out but whose suffix is given is printed whole, without padding.
    """
    return ",".join([*(f"{name}:{field_mark}" for name in fields[:-1]), f"{fields[-1]}:{record_mark}"])


def heads(word: str, field: str) -> bool:
    """Whether *word* stands above *field* in a header: releases differ in case and underscores."""
    return word.replace("_", "").lower() == field.lower()


def cut(
    command: str, text: str, fields: Sequence[str], heading: str, field_mark: str, record_mark: str
) -> RecordColumns:
    """The records that *command* printed under its own header, the first field being *heading*.

    Raises SlurmUnavailable for all that is no whole answer: an empty one has a header too, each line ends with the
    record mark and the end of the line, and each record has one text per field.
    """
    *records, rest = text.split(record_mark)
    width = len(fields)
    if not records or not heads(records[0].partition(field_mark)[0], heading):
        raise SlurmUnavailable(f"{command} printed something that is not its answer")
    if rest != "\n":
        raise SlurmUnavailable(f"the answer of {command} was cut off")
    whole = all(record.startswith("\n") for record in records[1:])
    if not whole or any(record.count(field_mark) != width - 1 for record in records):
        raise SlurmUnavailable(f"the answer of {command} has records without the fields that were asked for")
    texts = field_mark.join(records[1:]).split(field_mark) if records[1:] else []
    columns = [texts[at::width] for at in range(width)]
    columns[0] = [value.removeprefix("\n") for value in columns[0]]
    return RecordColumns(dict(zip(fields, columns, strict=True)))


@contextmanager
def reading(command: str) -> Iterator[None]:
    """Take a value of *command* that means nothing for an answer that is none: SlurmUnavailable."""
    try:
        yield
    except (ValueError, OverflowError) as error:
        raise SlurmUnavailable(f"the answer of {command} has values that mean nothing") from error
