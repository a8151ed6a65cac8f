"""Slurm's JSON Web Tokens (``scontrol token``, auth/jwt), verified with the keys that slurmctld has."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...config import RemoteSettings
from ...errors import ConfigError
from .private_file import demand_private
from .remote_identity import IdentityRefused

KEY_B = 32  #: the least for HS256 (RFC 7518, 3.2)
RSA_BITS = 2048


def token_reader(settings: RemoteSettings) -> Callable[[str], str] | None:
    """Return what names the user of a token, by the keys that *settings* name; None where tokens are off.

    ConfigError where a key cannot be used.
    """
    if not (settings.token_key or settings.token_jwks):
        return None
    try:
        import jwt  # noqa: F401
    except ImportError as error:
        raise ConfigError("remote.token_key, remote.token_jwks: tokens need the extra jwt") from error
    secret = _secret(settings.token_key) if settings.token_key else None
    public = _public_keys(settings.token_jwks) if settings.token_jwks else {}
    return SlurmTokens(secret, public, settings.token_claim, settings.token_audience).user


class SlurmTokens:
    """Verifies tokens: HS256 by *secret*, RS256 by the key in *public* with the token's key id.

    The user's name is in *claim*. A token for an audience counts only where that is *audience*.
    """

    def __init__(self, secret: bytes | None, public: dict[str, Any], claim: str, audience: str) -> None:
        self._secret, self._public, self._claim, self._audience = secret, public, claim, audience

    def user(self, token: str) -> str:
        """Return the name of the token's user; IdentityRefused for a forged, expired or foreign token."""
        import jwt

        try:
            header = jwt.get_unverified_header(token)
            algorithm, key = str(header.get("alg")), self._key(header)
            if key is None:
                raise IdentityRefused("token", "the token is signed by a key that is not accepted here")
            claims = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                audience=self._audience or None,
                options={
                    "require": ["exp", self._claim] + (["aud"] if self._audience else []),
                    "verify_iat": False,  # the clock of the host that made it may be ahead
                },
            )
        except jwt.ExpiredSignatureError as error:
            raise IdentityRefused("expired", "the token has expired; make a new one (scontrol token)") from error
        except jwt.InvalidSignatureError as error:
            raise IdentityRefused("token", "the token is forged, or signed by another key") from error
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as error:
            raise IdentityRefused("token", f"the token is not valid here ({type(error).__name__})") from error
        user = claims[self._claim]
        if not isinstance(user, str):
            raise IdentityRefused("token", f"the claim {self._claim} of the token is no name")
        return user

    def _key(self, header: dict[str, Any]) -> Any:
        """Return the key for a token's *header*, None where there is none: a public key is never a secret of HS256."""
        if header.get("alg") == "HS256":
            return self._secret
        return self._public.get(str(header.get("kid"))) if header.get("alg") == "RS256" else None


def _secret(path: str) -> bytes:
    try:
        secret = demand_private("remote.token_key", path).read_bytes()
    except OSError as error:
        raise ConfigError(f"remote.token_key: {path}: {error.strerror or error}") from error
    if len(secret) < KEY_B:
        raise ConfigError(f"remote.token_key: {path}: a key for HS256 has at least {KEY_B} bytes")
    return secret


def _public_keys(path: str) -> dict[str, Any]:
    """Return the RSA keys of a JWKS file by their ids; keys for other algorithms are left out, as slurmctld does."""
    import jwt

    try:
        rows = json.loads(Path(path).read_text(encoding="utf-8"))["keys"]
        public = {
            str(row["kid"]): jwt.PyJWK(row, algorithm="RS256").key
            for row in rows
            if row["kty"] == "RSA" and row.get("alg", "RS256") == "RS256"
        }
    except OSError as error:
        raise ConfigError(f"remote.token_jwks: {path}: {error.strerror or error}") from error
    except jwt.PyJWTError as error:
        raise ConfigError(f"remote.token_jwks: {path}: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"remote.token_jwks: {path} is no JWKS file with keys that have a kid") from error
    if not public or any(key.key_size < RSA_BITS for key in public.values()):
        raise ConfigError(f"remote.token_jwks: {path}: needed are keys for RS256 of at least {RSA_BITS} bits")
    return public
