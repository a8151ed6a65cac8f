"""The door for clients on other hosts: the same requests as on the socket, through TLS, with a proof of the user."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import secrets
import ssl
from collections import Counter
from collections.abc import Callable

from ...errors import ConfigError
from ..follower import Follower
from .listener import Listener, Peer, Turns, tcp_server
from .query_arguments import AnswerRefused
from .query_protocol import DELIVER, DELIVERY_B, SCHEMA, line_of, parsed, refusal
from .query_server import MOST, QueryWorkers
from .questions.table import QUESTIONS
from .remote_access import RemoteAccess
from .remote_identity import IdentityRefused, Proven

logger = logging.getLogger(__name__)

REMOTE_ASKS = tuple(name for name, question in QUESTIONS.items() if question.remote)
"""The requests of the commands that users call; the rest is for users of the daemon's own host."""

LINE_B = 16384
PER_HOST = 2 * MOST  #: a login node has many users
PER_USER = 8  #: of them of one user; as on the socket
PATIENCE_S = 10.0
PROOF_S = 5.0
PROVERS = 4
LANES = 2  #: proofs of one address at a time
DELIVERERS = 4

Take = Callable[[object, int, str], str]
"""Takes a record that a user delivers from an address, and returns the answer to it."""


class RemoteServer(Follower):
    """Answers the users of other hosts as *access* says, by *workers*; ConfigError if the address is in use.

    A client gets a line with a nonce first. *access* is called again after a reload. *take* gets what nodes and jobs
    deliver; None refuses it.
    """

    def __init__(
        self,
        access: Callable[[], RemoteAccess | None],
        workers: QueryWorkers,
        *,
        take: Take | None = None,
        counted: Callable[[str], None] = lambda result: None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        first = access()
        if first is None:
            raise ConfigError("remote.listen: no address")
        self._read, self._access, self._workers, self._counted = access, first, workers, counted
        self._take, self._earlier_door = take, first.door
        server = tcp_server("remote.listen", first.address)
        #: the actual address: a free port in place of port 0
        self.address: tuple[str, int] = server.getsockname()[:2]
        self._visit = itertools.count()
        self._provers = Turns(PROVERS, "remote-identity")
        self._deliverers = Turns(DELIVERERS, "remote-delivery")
        #: visits with a proven user, by uid, until their answers are delivered
        self.visits: Counter[int] = Counter()
        self._listener = Listener(
            server,
            self._respond,
            name="remote",
            busy=refusal("too many are asking at once; ask again in a moment", again=True),
            too_long=self._overlong,
            request_b=DELIVERY_B + LINE_B if take else LINE_B,
            most=2 * PER_HOST,
            most_per_peer=PER_HOST,
            patience_s=patience_s,
            greeting=self._greet,
            tls=self._tls if first.tls else None,
            tls_failed=lambda: counted("tls"),
        )

    def start(self) -> None:
        """Start to answer."""
        self._listener.start()

    def close(self) -> None:
        """Stop."""
        self._listener.close()
        self._provers.close()
        self._deliverers.close()

    def renew(self) -> None:
        """Use the certificates, keys and services that the settings name now; the address stays."""
        access = self._read()
        if access is None or bool(access.tls) != bool(self._access.tls):
            logger.warning("switching remote.listen or its TLS on or off takes effect only after a restart")
            return
        self._earlier_door, self._access = self._access.door, access

    def _tls(self) -> ssl.SSLContext:
        assert self._access.tls is not None
        return self._access.tls

    def _greet(self) -> bytes:
        return line_of({"schema": SCHEMA, "nonce": secrets.token_hex(16), "accepts": self._access.identities.accepted})

    async def _respond(self, line: bytes, peer: Peer) -> bytes:
        try:
            lane = Peer(uid=next(self._visit) % LANES, address=peer.address)
            proven = await self._provers.run(lane, lambda: self._prove(line, peer), PROOF_S)
        except TimeoutError:
            return self._refuse("busy", "too many are asking from your host; ask again in a moment")
        except IdentityRefused as refused:
            return self._refuse(refused.result, str(refused))
        if proven.request.get("ask") == DELIVER and self._take:
            return await self._deliver(proven, peer, self._take)
        if proven.request.get("ask") not in REMOTE_ASKS:
            return self._refuse("request", f'from another host "ask" is one of {", ".join(REMOTE_ASKS)}')
        if not self._admit(proven.uid):
            return self._refuse("busy", "too many of your questions are being answered; ask again in a moment")
        answer = await self._workers.respond(proven.request, proven.uid, local=False)
        self._counted("answered")
        return answer

    async def _deliver(self, proven: Proven, peer: Peer, take: Take) -> bytes:
        # Nodes share a user, so that their limit is that of an address.
        if peer.services is not None:
            return self._refuse("certificate", "a service delivers nothing: only nodes and jobs do")
        lane, record = Peer(address=peer.address), proven.request.get("record")
        try:
            answer = await self._deliverers.run(lane, lambda: take(record, proven.uid, peer.address), PATIENCE_S)
        except TimeoutError:
            return self._refuse("busy", "too many are delivering at once")
        self._counted("delivered")
        return line_of({"schema": SCHEMA, "ask": DELIVER, "answer": answer})

    def _admit(self, uid: int) -> bool:
        """Count the visit under way for the user *uid* until its answer is delivered; False where there are many."""
        visit = asyncio.current_task()
        if visit is None or self.visits[uid] >= PER_USER:
            return False
        self.visits[uid] += 1

        def end(_: object) -> None:
            self.visits[uid] -= 1
            if not self.visits[uid]:
                del self.visits[uid]

        visit.add_done_callback(end)
        return True

    def _prove(self, line: bytes, peer: Peer) -> Proven:
        nonce = str(json.loads(peer.greeting)["nonce"])
        try:
            envelope = parsed(line)
        except AnswerRefused as error:
            raise IdentityRefused("line", str(error)) from error
        try:
            return self._access.identities.prove(envelope, peer, nonce, (self._access.door, self._earlier_door))
        except IdentityRefused:
            raise
        except Exception as error:  # whatever a client sends, it is refused
            logger.exception("a bug in proving a user")
            raise IdentityRefused("bug", "a bug in the daemon; its log has details") from error

    def _overlong(self) -> bytes:
        return self._refuse(
            "line", f"a request with its proof has at most {DELIVERY_B + LINE_B if self._take else LINE_B} bytes"
        )

    def _refuse(self, result: str, text: str) -> bytes:
        logger.debug("a client on another host was refused: %s", text)
        self._counted(result)
        return refusal(text, again=result == "busy")
