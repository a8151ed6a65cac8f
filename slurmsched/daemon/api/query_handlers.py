"""The daemon's queries, and the rules for who may see the answers."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any

import numpy as np

from ...explain.eta import Eta
from .query_arguments import AnswerRefused, NotYet
from .query_protocol import SCHEMA
from .questions.contract import Asked, Asker, Decided, Sources, Who, named
from .questions.table import QUESTIONS

_SCALARS = {bool, int, str}


class QueryHandlers:
    """Answers from the latest report; the cycle swaps it in one assignment."""

    def __init__(self, sources: Sources, *, trusted: Sequence[int]) -> None:
        self._sources = sources
        self._trusted = frozenset(trusted)  # uids that see all: root and the daemon's own
        self._latest: Decided | None = None

    def observe(self, report: Decided) -> None:
        """Answer from *report* from now on."""
        self._latest = report

    def answer(
        self, request: object, uid: int, *, local: bool = True, operators: Collection[str] | None = None
    ) -> dict[str, Any]:
        """Answer *request* for the unix user *uid*, ready for JSON; AnswerRefused where there is no answer.

        Unless the user is *local*, identified by this machine's kernel, no uid is trusted to see all. With *operators*
        none but these are taken for operators, if they are in Slurm.
        """
        name = request.get("ask") if isinstance(request, Mapping) else None
        question = QUESTIONS.get(name) if isinstance(name, str) else None
        if question is None or not isinstance(request, Mapping):
            raise AnswerRefused(f'a question is one JSON object with "ask" one of {", ".join(QUESTIONS)}')
        if question.compiled and (starting := self._sources.starting()):
            raise NotYet(starting)
        trusted = local and uid in self._trusted
        sources = self._sources if operators is None else _with_operators(self._sources, operators)
        asker = Asker(uid, None if trusted else _only(sources, uid), trusted)
        asked = Asked(question.given(request), asker, sources, self._latest)
        if question.who is Who.OPERATOR and asker.only is not None:
            raise AnswerRefused(f"jobs are private on this cluster: only operators may see {question.about}")
        if question.decided:
            _ = asked.decided
        if question.who is Who.OWNER:
            asked.demand_own(asked.given["job_id"])
        return {"schema": SCHEMA, "ask": question.name, **plain(question.answer(asked))}


def _only(sources: Sources, uid: int) -> str | None:
    if not sources.private():
        return None
    user = named(uid, "jobs are private on this cluster, and ")
    return None if sources.operator(user) else user


def _with_operators(sources: Sources, operators: Collection[str]) -> Sources:
    return replace(sources, operator=lambda user: user in operators and sources.operator(user))


def takes_long(request: object) -> bool:
    """Report whether the answer to *request* may take long; false for anything that is not a request."""
    name = request.get("ask") if isinstance(request, Mapping) else None
    return isinstance(name, str) and name in QUESTIONS and QUESTIONS[name].slow


def plain(value: Any) -> Any:
    """Convert *value* for JSON: dataclasses become objects, arrays lists, NaN and infinity null."""
    if value is None or type(value) in _SCALARS:
        return value
    if isinstance(value, Eta):
        return vars(value)  # plain already; an answer has hundreds
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Enum):
        return value.name.lower()
    if isinstance(value, np.generic | np.ndarray):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int | str) else str(value)
