"""Who asks over HTTP: by slurmrestd's headers, by that of a proxy, or by the kernel.

A token is checked by the daemon alone, and kept nowhere. The two others count on sockets of their own alone.
"""

from __future__ import annotations

import binascii
import json
import pwd
import re
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping
from http import HTTPStatus

from flask import Request

from .problems import Problem

USER, TOKEN = "X-SLURM-USER-NAME", "X-SLURM-USER-TOKEN"
TOKEN_MOST = 4096
_CLAIMS = ("sun", "sub", "username")
"""The claims of Slurm's tokens that name the user: of auth/jwt, and of others that sites issue."""


REMOTE_USER = "X-Remote-User"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,255}")

Who = Callable[[Request], str]
"""Says who asks: the token, or the name of a user. Problem 401 where that is not known."""


def by_token(request: Request) -> str:
    """Return the token of Slurm that a request brings."""
    return token_of(dict(request.headers))


def by_proxy(request: Request) -> str:
    """Return the user whom the proxy names; Problem 401 for none, or for several."""
    name = request.headers.get(REMOTE_USER, "")
    if _NAME.fullmatch(name):
        return name
    raise Problem(HTTPStatus.UNAUTHORIZED, f"the proxy names no user in {REMOTE_USER}, or none that can be one")


def by_socket(request: Request) -> str:
    """Return the user at the other end of a unix socket, whose uid the server puts in place of an address."""
    try:
        return pwd.getpwuid(int(request.remote_addr or "")).pw_name
    except (KeyError, ValueError, OverflowError) as error:
        raise Problem(HTTPStatus.UNAUTHORIZED, "the user of this connection has no name here") from error


def token_of(headers: Mapping[str, str]) -> str:
    """Return the token of the request; Problem 401 without one, or for one that speaks of another user than named."""
    by_name = {name.upper(): value for name, value in headers.items()}
    token, user = by_name.get(TOKEN, ""), by_name.get(USER, "")
    if not token or len(token) > TOKEN_MOST or not token.isascii() or not token.isprintable() or " " in token:
        raise _unauthorized(f"say who you are: a token of Slurm (scontrol token) in {TOKEN}")
    if user and user not in _named(token):
        raise _unauthorized(f"the token in {TOKEN} is not one of the user in {USER}")
    return token


def _named(token: str) -> set[str]:
    """Return the users that a token says it is of, unverified: only a mismatch counts here."""
    parts = token.split(".")
    if len(parts) != 3:
        return set()
    try:
        claims = json.loads(urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        return set()
    return {str(claims[name]) for name in _CLAIMS if name in claims} if isinstance(claims, dict) else set()


def _unauthorized(detail: str) -> Problem:
    return Problem(
        HTTPStatus.UNAUTHORIZED, detail, {"WWW-Authenticate": f'SlurmToken realm="slurmsched", header="{TOKEN}"'}
    )
