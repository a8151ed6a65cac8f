"""Users' text, made safe for a terminal."""

from __future__ import annotations

import unicodedata


def clean(text: str) -> str:
    r"""Return *text* on one line, safe for a terminal: controls, escapes and bidi marks become ``\x1b``."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def clean_lines(text: str) -> str:
    """Return *text* with each line cleaned; only the line ends stay."""
    return "\n".join(clean(line) for line in text.split("\n"))


def width(text: str) -> int:
    """Return the terminal cells that *text* fills: East Asian wide characters two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )
