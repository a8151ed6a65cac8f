"""Split the text output of Slurm's commands into fields that no user can forge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ...errors import SlurmUnavailable


@dataclass(frozen=True)
class RecordColumns:
    """Fields by name, each a list of one text per record."""

    by_name: dict[str, list[str]]

    def __getitem__(self, name: str) -> list[str]:
        return self.by_name[name]


def long_format(fields: Sequence[str], field_mark: str, record_mark: str) -> str:
    """Return the ``-O`` argument of squeue and sinfo that ends each field, and the last of each record, with a mark.

    A field with a suffix but no width is printed whole, without padding.
    """
    return ",".join([*(f"{name}:{field_mark}" for name in fields[:-1]), f"{fields[-1]}:{record_mark}"])


def heads(word: str, field: str) -> bool:
    """Return True if *word* is the heading of *field*: releases differ in case and underscores."""
    return word.replace("_", "").lower() == field.lower()


def cut(
    command: str, text: str, fields: Sequence[str], heading: str, field_mark: str, record_mark: str
) -> RecordColumns:
    """Split the output of *command* into records; its header begins with the field *heading*.

    Raises SlurmUnavailable unless the answer is complete: even an empty one has a header, each line ends with the
    record mark and a newline, and each record has one text per field.
    """
    *records, rest = text.split(record_mark)
    width = len(fields)
    if not records or not heads(records[0].partition(field_mark)[0], heading):
        raise SlurmUnavailable(f"{command} printed something that is not its answer")
    if rest != "\n":
        raise SlurmUnavailable(f"the answer of {command} was cut off")
    whole = all(record.startswith("\n") for record in records[1:])
    if not whole or any(record.count(field_mark) != width - 1 for record in records):
        raise SlurmUnavailable(f"the answer of {command} has records without the requested fields")
    texts = field_mark.join(records[1:]).split(field_mark) if records[1:] else []
    columns = [texts[at::width] for at in range(width)]
    columns[0] = [value.removeprefix("\n") for value in columns[0]]
    return RecordColumns(dict(zip(fields, columns, strict=True)))


@contextmanager
def reading(command: str) -> Iterator[None]:
    """Raise SlurmUnavailable where the body cannot interpret a value that *command* printed."""
    try:
        yield
    except (ValueError, OverflowError) as error:
        raise SlurmUnavailable(f"the answer of {command} has values that mean nothing") from error
