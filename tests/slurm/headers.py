"""The header that squeue, sinfo and sprio print above their records; as a program, what they print for a format.

python headers.py FORMAT [TEXT...]: the header, and for each TEXT a record of that text in every field.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

HEADER = f'for format; do :; done; {sys.executable} -I {Path(__file__)} "$format"'
"""A line of sh that prints the header of what its own command line asks for."""


def headed(fields: Sequence[str], field_mark: str, record_mark: str, records: str) -> str:
    """A whole answer with *records* under the header of *fields*."""
    names = ("JOBID" if name == "%i" else name.upper() for name in fields)
    return field_mark.join(names) + record_mark + "\n" + records


def _fields(format_: str) -> list[tuple[str, str]]:
    """Each field of the argument of -O (NAME:~MARK,...) or -o (%X~MARK...), with its mark."""
    found = re.findall(r"(%\w|[\w-]+:)(~[\w-]+?)(?=,|%|$)", format_)
    return [("JobID" if name == "%i" else name.rstrip(":"), mark) for name, mark in found]


if __name__ == "__main__":
    fields = _fields(sys.argv[1])
    print("".join(name.upper() + mark for name, mark in fields))
    for text in sys.argv[2:]:
        print("".join(text + mark for _, mark in fields))
