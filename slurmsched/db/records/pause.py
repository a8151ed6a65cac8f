"""The pause switch of admins."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, select

from ..database import insert_or
from ..tables import control


@dataclass(frozen=True)
class Control:
    """The state of the pause switch: the end of a pause, the admin who set it, and the time of the change."""

    paused: bool = False
    until_s: float | None = None  #: None: until somebody resumes
    by: str = ""
    since_s: float = 0.0

    def at(self, now_s: float) -> Control:
        """Return the state at *now_s*: a pause with an end time ends by itself."""
        if self.paused and self.until_s is not None and now_s >= self.until_s:
            return Control(False, None, self.by, self.until_s)
        return self


def save_control(connection: Connection, cluster: str, wanted: Control) -> None:
    """Store the state of the switch."""
    row = {"paused": wanted.paused, "until_s": wanted.until_s, "by": wanted.by, "since_s": wanted.since_s}
    insert_or(connection, control, [{"cluster": cluster, **row}], replace=row)


def load_control(connection: Connection, cluster: str) -> Control:
    """Return the state of the switch; not paused if it was never set."""
    found = connection.execute(select(control).where(control.c.cluster == cluster)).one_or_none()
    return Control() if found is None else Control(found.paused, found.until_s, found.by, found.since_s)
