"""The words of a notice, from its template: one file for each kind, its first line the subject."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import ConfigError
from ...pages.texts import render_text
from .events import Notice

SUBJECT_MOST = 160  #: characters


@dataclass(frozen=True)
class Message:
    """A notice in words."""

    subject: str  #: one line of visible characters
    text: str


def message_of(notice: Notice, cluster: str, *, directory: str = "", left_out: int = 0) -> Message:
    """Return the words of *notice*; templates in *directory* win. ConfigError names a template that does not work.

    *left_out* is how many notices to the same reader were left out before it.
    """
    values = {**notice.facts, "job_id": notice.job_id, "cluster": cluster, "left_out": left_out, "at_s": notice.at_s}
    try:
        text = render_text(f"notice-{notice.kind}.txt", directory, **values)
    except Exception as error:  # a template of the site may be wrong in any way
        raise ConfigError(f"the template notice-{notice.kind}.txt: {type(error).__name__}: {error}") from error
    subject, _, body = text.strip().partition("\n")
    subject = " ".join("".join(char if char.isprintable() else " " for char in subject).split())
    return Message(subject[:SUBJECT_MOST] or f"slurmsched: {notice.kind}", body.strip() + "\n")
