"""Who asks over HTTP: slurmrestd's headers. The token is checked by the daemon alone, and kept nowhere."""

from __future__ import annotations

import binascii
import json
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from http import HTTPStatus

from .problems import Problem

USER, TOKEN = "X-SLURM-USER-NAME", "X-SLURM-USER-TOKEN"
TOKEN_MOST = 4096
_CLAIMS = ("sun", "sub", "username")
"""The claims of Slurm's tokens that name the user: of auth/jwt, and of others that sites issue."""


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
