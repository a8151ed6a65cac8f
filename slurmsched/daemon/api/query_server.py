"""The query socket, and the threads that answer on it and on other doors; a query changes nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from ...errors import SlurmschedError
from ..follower import Follower
from .listener import Listener, Peer, Turns, started_threads, unix_server
from .named_users import AS, UNNAMED, NamedUsers
from .query_arguments import AnswerRefused, NotYet
from .query_handlers import QueryHandlers, takes_long
from .query_protocol import ANSWER_B, REQUEST_B, SOCKET, line_of, parsed, refusal

logger = logging.getLogger(__name__)

WORKERS = 2
MOST = 128  #: clients at a time


class QueryWorkers:
    """Threads that answer *questions* for all doors: two beside the cycle, and a third one for slow queries.

    Each user has one slow query in progress at a time, and the next one waits for at most *turn_s*. A client whose
    answer takes longer than *answer_s* is told so: a door that closes in the middle would say nothing.
    """

    def __init__(self, questions: QueryHandlers, *, turn_s: float, answer_s: float = 4.0) -> None:
        self._questions, self._turn_s, self._answer_s = questions, turn_s, answer_s
        self._workers = started_threads(WORKERS, "answers")
        self._slow = Turns(1, "slow-answers")

    async def respond(
        self, request: object, uid: int, *, local: bool = True, operators: Collection[str] | None = None
    ) -> bytes:
        """Return the line that answers *request* of the user *uid*; ``QueryHandlers.answer`` explains the rest."""

        def answer() -> bytes:
            return self._answer(request, uid, local, operators)

        try:
            async with asyncio.timeout(self._answer_s):
                return await self._answered(request, uid, answer)
        except TimeoutError:
            return refusal(
                f"the answer takes longer than {self._answer_s:g} s: the daemon is busy, or has just started; "
                "ask again in a moment",
                again=True,
            )

    async def _answered(self, request: object, uid: int, answer: Callable[[], bytes]) -> bytes:
        if not takes_long(request):
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._workers, answer)
        try:
            return await self._slow.run(Peer(uid=uid), answer, self._turn_s)
        except TimeoutError:
            words = "your other questions of this kind are still being worked on; ask again in a moment"
            return refusal(words, again=True)

    def close(self) -> None:
        """Start no further work."""
        self._workers.shutdown(wait=False, cancel_futures=True)
        self._slow.close()

    def _answer(self, request: object, uid: int, local: bool, operators: Collection[str] | None) -> bytes:
        try:
            answer = line_of(self._questions.answer(request, uid, local=local, operators=operators))
        except SlurmschedError as error:
            return refusal(str(error), again=isinstance(error, NotYet))
        except MemoryError:
            return refusal("the daemon is short of memory; ask again in a moment", again=True)
        except Exception:  # a query must never end the answering thread; the client gets an error, the log has more
            logger.exception("a bug in answering %.200r", request)
            return refusal("a bug in the daemon; its log has details")
        return answer if len(answer) <= ANSWER_B else refusal("the answer is too long; ask with a smaller limit")


class QueryServer(Follower):
    """Serves *questions* on ``run_dir``/slurmsched.sock to every user of the machine; ConfigError if it cannot.

    The kernel identifies the client (SO_PEERCRED). ``workers`` may serve other doors too, until this one closes.
    *named* says who may name another user; None: nobody.
    """

    def __init__(
        self,
        run_dir: str | Path,
        questions: QueryHandlers,
        *,
        patience_s: float = 5.0,
        turn_s: float = 2.5,
        answer_s: float = 4.0,
        named: Callable[[], NamedUsers | None] = lambda: None,
    ) -> None:
        self._named = named
        self._path = Path(run_dir) / SOCKET
        self._listener = Listener(
            unix_server(self._path, 0o666),
            self._respond,
            name="answers",
            busy=refusal("too many are asking at once; ask again in a moment", again=True),
            too_long=lambda: refusal(f"a question has at most {REQUEST_B} bytes"),
            request_b=REQUEST_B,
            most=MOST,
            most_per_peer=8,
            patience_s=patience_s,
        )
        self.workers = QueryWorkers(questions, turn_s=turn_s, answer_s=answer_s)

    def start(self) -> None:
        """Start to answer."""
        self._listener.start()

    def close(self) -> None:
        """Stop, and remove the socket file."""
        self._listener.close()
        self.workers.close()
        self._path.unlink(missing_ok=True)

    async def _respond(self, line: bytes, peer: Peer) -> bytes:
        try:
            request = parsed(line)
        except AnswerRefused as error:
            return refusal(str(error))
        if isinstance(request, dict) and AS in request:
            return await self._respond_to_named(request, peer)
        return await self.workers.respond(request, peer.uid)

    async def _respond_to_named(self, request: Mapping[str, Any], peer: Peer) -> bytes:
        """Answer a request in the name of a user, as one from another host is answered."""
        try:
            named = self._named()
            if named is None:
                raise AnswerRefused(UNNAMED)
            uid = named.uid_named(request, peer.uid)
        except SlurmschedError as error:
            return refusal(str(error))
        return await self.workers.respond(request, uid, local=False, operators=named.operators)
