"""Who hears of a job: the address that its owner gave to Slurm, else the owner at the site's domain, else nobody."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ...errors import SlurmschedError

ADDRESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+=-]{0,63}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?")
LOCAL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}")
_RECORD = re.compile(r"^JobId=", re.MULTILINE)
_MAIL_USER = re.compile(r"^ +MailUser=(\S*)", re.MULTILINE)


class Recipients:
    """Finds the addresses of owners. *query* runs one of Slurm's commands and returns its output.

    What a job says in its comment or its name chooses nobody: only MailUser counts, which Slurm itself mails to.
    """

    def __init__(self, query: Callable[[Sequence[str]], str]) -> None:
        self._query = query

    def of(self, job_id: int, owner: str, domain: str) -> str:
        """Return the address for a job of *owner*; empty where there is none that is well formed."""
        told = self._mail_user(job_id)
        if ADDRESS.fullmatch(told):
            return told
        user = told if LOCAL.fullmatch(told) else owner
        at_site = f"{user}@{domain}" if domain and LOCAL.fullmatch(user) else ""
        return at_site if ADDRESS.fullmatch(at_site) else ""

    def _mail_user(self, job_id: int) -> str:
        """Return MailUser as Slurm has it. A name or comment of several lines could look like that line: then empty."""
        show = ["scontrol", "show", "job", str(job_id)]
        try:
            mine = [record for record in _RECORD.split(self._query(show)) if record.split()[:1] == [str(job_id)]]
            found = _MAIL_USER.findall(mine[0]) if len(mine) == 1 else []
            lines = self._query([*show, "--oneliner"]).splitlines() if found else []
        except SlurmschedError:  # it has ended, or Slurm is away
            return ""
        of_one_line = all(_RECORD.match(line) for line in lines if line.strip())
        return found[-1] if found and of_one_line else ""
