"""Logging to standard error, in journald's format where journald reads it."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime

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


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON, whose keys do not depend on the message."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the object; control characters are escaped, as JSON does."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)


class JournalFormatter(logging.Formatter):
    """Puts ``<4>`` in front of each line of *inner*, which gives journald the priority."""

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        """Return the record with each line marked."""
        mark = f"<{_PRIORITIES.get(record.levelno, 5)}>"
        return mark + self._inner.format(record).replace("\n", f"\n{mark}")


def log_to_stderr(level: str, environ: Mapping[str, str], layout: str = "text") -> None:
    """Send all log records of at least *level* to standard error; *layout* is text or json."""
    handler, in_journal = logging.StreamHandler(sys.stderr), "JOURNAL_STREAM" in environ
    text = "%(name)s: %(message)s" if in_journal else "%(asctime)s %(levelname)s %(name)s: %(message)s"
    formatter = JsonFormatter() if layout == "json" else LineFormatter(text)
    handler.setFormatter(JournalFormatter(formatter) if in_journal else formatter)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger("alembic").setLevel(logging.WARNING)  # it lists its plug-ins at INFO
