"""Questions to the daemon, and its refusals as problems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from threading import Lock
from typing import Any

from ..daemon.api.query_arguments import AnswerRefused, NotYet
from ..daemon.api.query_protocol import DaemonUnreachable
from ..pages.formats import moment
from .problems import Problem

AGAIN_S = 10
AT_ONCE = 3
"""Requests of one user that are worked on at a time: fewer than there are threads, so that others are answered."""

Ask = Callable[[Mapping[str, Any], str], Mapping[str, Any]]
"""Asks the daemon a question with a token, or in the name of a user; AnswerRefused, or DaemonUnreachable."""


class Watched:
    """Asks by *ask*, and says of a daemon that is away since when; *now* is Unix time. Called from any thread."""

    def __init__(self, ask: Ask, now: Callable[[], float]) -> None:
        self._ask, self._now = ask, now
        self._away_s: float | None = None

    def __call__(self, question: Mapping[str, Any], asker: str) -> Mapping[str, Any]:
        """Return the daemon's answer, or raise as *ask* does."""
        try:
            found = self._ask(question, asker)
        except DaemonUnreachable as error:
            self._away_s = away_s = self._now() if self._away_s is None else self._away_s
            raise DaemonUnreachable(f"{error} (away since {moment(away_s)})") from error
        except AnswerRefused:
            self._away_s = None
            raise
        self._away_s = None
        return found


def asked(ask: Ask, question: Mapping[str, Any], asker: str) -> Mapping[str, Any]:
    """Return the daemon's answer; Problem 403 where it refuses, 503 where it does not answer, or not yet."""
    try:
        return ask(question, asker)
    except (DaemonUnreachable, NotYet) as error:
        again = {"Retry-After": str(AGAIN_S)}
        raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, str(error), again) from error
    except AnswerRefused as error:
        raise Problem(HTTPStatus.FORBIDDEN, str(error)) from error


class Turns:
    """Counts the requests of each user that are worked on. Called from any thread."""

    def __init__(self, most: int = AT_ONCE) -> None:
        self._most, self._lock, self._working = most, Lock(), Counter[str]()

    @contextmanager
    def of(self, asker: str) -> Iterator[None]:
        """Count one of *asker* within; Problem 429 where there are as many as may be."""
        with self._lock:
            if self._working[asker] >= self._most:
                words = f"{self._most} of your requests are being worked on; ask again in a moment"
                raise Problem(HTTPStatus.TOO_MANY_REQUESTS, words, {"Retry-After": "1"})
            self._working[asker] += 1
        try:
            yield
        finally:
            with self._lock:
                self._working[asker] -= 1
                if not self._working[asker]:
                    del self._working[asker]
