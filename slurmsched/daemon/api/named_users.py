"""Users whom the web process names, where a proxy or the kernel has told it who asks."""

from __future__ import annotations

import pwd
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...config import WebSettings
from ...errors import ConfigError
from .query_arguments import AnswerRefused
from .questions.contract import user_name
from .questions.table import QUESTIONS

AS = "as"
"""The key of a request with the name of the user in whose name it is."""

UNNAMED = "only the web process of this cluster may name a user (web.user)"


@dataclass(frozen=True)
class NamedUsers:
    """The peer that may name users, and those of them that count as operators where Slurm says so too."""

    uid: int
    operators: frozenset[str] = frozenset()

    def uid_named(self, request: Mapping[str, Any], peer_uid: int) -> int:
        """Return the uid of the user whom *request* names; AnswerRefused where the peer may not, or may not ask that.

        Nobody is named but for the questions of users that change nothing, and root never is.
        """
        if peer_uid != self.uid:
            raise AnswerRefused(UNNAMED)
        name, asked = request[AS], request.get("ask")
        question = QUESTIONS.get(asked) if isinstance(asked, str) else None
        if question is None or not (question.remote and question.read_only):
            asks = (one.name for one in QUESTIONS.values() if one.remote and one.read_only)
            raise AnswerRefused(f'in the name of a user "ask" is one of {", ".join(asks)}')
        uid = uid_of(name) if isinstance(name, str) else -1
        if uid == 0 or not user_name(uid):
            raise AnswerRefused(f"{name!r:.80} is no user on the daemon's host in whose name is answered")
        return uid


def uid_of(name: str) -> int:
    """Return the uid of a user; -1 for an unknown one."""
    try:
        return pwd.getpwnam(name).pw_uid
    except (KeyError, ValueError):
        return -1


def named_users(settings: WebSettings, own_uid: int) -> NamedUsers | None:
    """Return who may name users, None without ``web.user``; ConfigError unless that is a user of its own."""
    if not settings.user:
        if settings.operators:
            raise ConfigError("web.operators: they are users whom web.user names, and none is set")
        return None
    uid = uid_of(settings.user)
    if uid in (-1, 0, own_uid):
        raise ConfigError(
            f"web.user = {settings.user!r}: accepted is a unix user of this host that is slurmsched web's alone, "
            "neither root nor the daemon's own"
        )
    return NamedUsers(uid, frozenset(settings.operators))
