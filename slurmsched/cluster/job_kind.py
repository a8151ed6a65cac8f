"""The kind of a job: its owner and the constant part of its name."""

from __future__ import annotations

import re
from functools import lru_cache

LONGEST = 64  #: characters of a name that distinguish buckets

# Numbers and random ids (hex of 8 and more) are what people and tools vary from run to run.
_VARYING = re.compile(r"[0-9a-f]{8,}|[0-9]+", re.ASCII)


@lru_cache(maxsize=100_000)  # the same queue comes every cycle
def bucket(name: str) -> str:
    """Remove from a name the parts that vary between runs: ``train_12_v3`` and ``train_7_v10`` are ``train_#_v#``."""
    # slurmdbd stores a double quote as a backquote; squeue shows the original.
    return _VARYING.sub("#", printable(name.replace('"', "`")))[:LONGEST]


def kind_of(user: str, name: str) -> str:
    """Return the kind of a job: its owner and the bucket of its name."""
    return f"{user}/{bucket(name)}"


def printable(text: str) -> str:
    """Make *text* safe for a terminal and a digest: line breaks, escapes and broken UTF-8 become question marks."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)
