"""Identities of clients on other hosts: munge credentials, Slurm's tokens, certificates of services."""

from __future__ import annotations

import json
import pwd
import re
import ssl
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .listener import Peer
from .munge_credential import CredentialRefused, MungeUnavailable, open_credential
from .query_arguments import AnswerRefused
from .query_protocol import DELIVER, DELIVERY_B, PURPOSE, REQUEST_B, parsed
from .questions.contract import user_name

_CREDENTIAL = re.compile(r"MUNGE:[A-Za-z0-9+/=]+:")


class IdentityRefused(Exception):
    """A request whose user is not proven; ``result`` is the label it is counted under."""

    def __init__(self, result: str, text: str) -> None:
        super().__init__(text)
        self.result = result


@dataclass(frozen=True)
class Proven:
    """A request, and the unix user who makes it."""

    uid: int
    request: Mapping[str, Any]


def leaf_of(path: Path) -> bytes:
    """Return the first certificate of a PEM file in DER; OSError or ValueError where there is none."""
    text = path.read_text(encoding="ascii")
    end = text.index(ssl.PEM_FOOTER) + len(ssl.PEM_FOOTER)
    return ssl.PEM_cert_to_DER_cert(text[text.index(ssl.PEM_HEADER) : end])


class MungeIdentity:
    """Proves users by munge credentials that hold the request; *unmunge* is the command that opens them."""

    def __init__(self, unmunge: Sequence[str]) -> None:
        self._unmunge = tuple(unmunge)

    def prove(self, envelope: Mapping[str, Any], nonce: str, doors: Collection[str]) -> Proven:
        """Return the request inside the credential and its maker; *doors* are the acceptable fingerprints."""
        credential = envelope["munge"]
        if not isinstance(credential, str) or not _CREDENTIAL.fullmatch(credential):
            raise IdentityRefused("credential", "that is no munge credential")
        try:
            payload, uid, _ = open_credential(self._unmunge, credential.encode("ascii"))
        except MungeUnavailable as error:
            raise IdentityRefused("munge", str(error)) from error
        except CredentialRefused as error:
            raise IdentityRefused("credential", f"the munge credential was refused: {error}") from error
        try:
            content = parsed(payload)
        except AnswerRefused:
            content = None
        if not isinstance(content, dict) or content.get("for") != PURPOSE:
            raise IdentityRefused("binding", "the munge credential was made for another purpose")
        if content.get("door") not in doors:
            raise IdentityRefused("binding", "the munge credential was made for another server")
        if content.get("nonce") != nonce:
            raise IdentityRefused("binding", "the munge credential was made for another connection")
        return Proven(uid, request_of(content))


class ServiceIdentity:
    """Lets services with one of the *names* in a verified certificate speak for users."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = frozenset(names)

    def prove(self, envelope: Mapping[str, Any], services: Sequence[str]) -> Proven:
        """Return the request and the user it is made ``as``; *services* are the DNS names in the certificate."""
        if not self._names.intersection(services):
            raise IdentityRefused("certificate", "the client's certificate is not that of a service in remote.services")
        if set(envelope) != {"as", "request"}:
            raise IdentityRefused("user", 'a service names the user it speaks for in "as", and nothing else')
        uid = uid_of(envelope["as"])
        if uid == 0:
            raise IdentityRefused("user", "a service does not speak for root")
        return Proven(uid, request_of(envelope))


@dataclass(frozen=True)
class Identities:
    """The accepted ways to prove a user; None for one that is off."""

    munge: MungeIdentity | None = None
    token: Callable[[str], str] | None = None  #: the name of a token's user; IdentityRefused
    service: ServiceIdentity | None = None

    @property
    def accepted(self) -> tuple[str, ...]:
        """The names of those that are on."""
        ways = {"munge": self.munge, "token": self.token, "certificate": self.service}
        return tuple(name for name, way in ways.items() if way is not None)

    def prove(self, envelope: object, peer: Peer, nonce: str, doors: Collection[str]) -> Proven:
        """Return the request in *envelope* and its user; IdentityRefused unless exactly one way proves a known user."""
        if not isinstance(envelope, dict):
            raise IdentityRefused("line", "a request is one JSON object")
        proven = self._proven(envelope, peer, nonce, doors)
        if not user_name(proven.uid):
            raise IdentityRefused("user", f"uid {proven.uid} has no name on the daemon's host")
        return proven

    def _proven(self, envelope: Mapping[str, Any], peer: Peer, nonce: str, doors: Collection[str]) -> Proven:
        if peer.services is not None:
            if self.service is None:
                raise IdentityRefused("certificate", "no certificates of services are accepted here")
            return self.service.prove(envelope, peer.services)
        if set(envelope) == {"munge"}:
            if self.munge is None:
                raise self._off("munge credentials")
            return self.munge.prove(envelope, nonce, doors)
        if set(envelope) == {"token", "request"}:
            if self.token is None:
                raise self._off("tokens")
            if not isinstance(envelope["token"], str):
                raise IdentityRefused("token", "that is no token")
            return Proven(uid_of(self.token(envelope["token"])), request_of(envelope))
        raise IdentityRefused("identity", f"a request needs one proof of its user; accepted: {self._accepted()}")

    def _off(self, what: str) -> IdentityRefused:
        return IdentityRefused("identity", f"{what} are not accepted here; accepted: {self._accepted()}")

    def _accepted(self) -> str:
        return ", ".join(self.accepted)


def request_of(envelope: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the request in *envelope*; IdentityRefused where it is none, or too long."""
    request = envelope.get("request")
    most = DELIVERY_B if isinstance(request, dict) and request.get("ask") == DELIVER else REQUEST_B
    with suppress(RecursionError):
        if isinstance(request, dict) and len(json.dumps(request)) <= most:
            return request
    raise IdentityRefused("line", f"a request is one JSON object of at most {most} bytes")


def uid_of(name: object) -> int:
    """Return the uid of the user *name* on this host; IdentityRefused for an unknown one."""
    try:
        return pwd.getpwnam(name).pw_uid  # type: ignore[arg-type]
    except (KeyError, TypeError, ValueError) as error:
        raise IdentityRefused("user", f"{name!r:.80} is no user on the daemon's host") from error
