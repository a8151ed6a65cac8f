"""Who hears of a job: the address that its owner gave to Slurm, else the owner at the site's domain, else nobody."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ...errors import SlurmschedError

ADDRESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+=-]{0,63}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?")
LOCAL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}")
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
        try:
            printed = self._query(["scontrol", "show", "job", str(job_id)])
        except SlurmschedError:  # it has ended, or Slurm is away
            return ""
        found = _MAIL_USER.findall(printed)
        return found[-1] if found else ""
