"""Line numbers of keys in a TOML text, which tomllib does not report."""

from __future__ import annotations

import re

_HEADER = re.compile(r"\s*\[\s*([A-Za-z0-9_.\-]+)\s*\]")
_KEY = re.compile(r"""\s*["']?([A-Za-z0-9_.\-]+?)["']?\s*=""")


def lines_of(text: str) -> dict[str, int]:
    """Return line numbers by ``section`` and ``section.key``, from 1, for the first mention of each.

    An aid for readers only: a line inside a multi-line text may be mistaken for a key.
    """
    found: dict[str, int] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            section = header[1]
            found.setdefault(section, number)
        elif key := _KEY.match(line):
            name = f"{section}.{key[1]}" if section else key[1]
            found.setdefault(name, number)
            found.setdefault(name.partition(".")[0], number)
    return found
