"""Logging to standard error, in journald's format where journald reads it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping

from .terminal_text import clean_lines

LEVELS = ("debug", "info", "warning", "error")
_PRIORITIES = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3, logging.CRITICAL: 2}


class LineFormatter(logging.Formatter):
    """Formats a record as lines that no user's text can break or colour."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record with control characters escaped; only a traceback has line ends."""
        record.message = record.getMessage().replace("\n", "\\n")
        if self.usesTime():
            record.asctime = self.formatTime(record, self.datefmt)
        text = self.formatMessage(record)
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return clean_lines(text)


class JournalFormatter(LineFormatter):
    """Formats a record with ``<4>`` in front of each line, which gives journald the priority."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record with each line marked."""
        mark = f"<{_PRIORITIES.get(record.levelno, 5)}>"
        return mark + super().format(record).replace("\n", f"\n{mark}")


def log_to_stderr(level: str, environ: Mapping[str, str]) -> None:
    """Send all log records of at least *level* to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    if "JOURNAL_STREAM" in environ:
        handler.setFormatter(JournalFormatter("%(name)s: %(message)s"))
    else:
        handler.setFormatter(LineFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger("alembic").setLevel(logging.WARNING)  # it lists its plug-ins at INFO
