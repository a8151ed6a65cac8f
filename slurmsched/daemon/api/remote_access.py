"""The settings of the door for other hosts, read and checked: certificates, keys, accepted identities."""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...config import RemoteSettings
from ...errors import ConfigError
from .listener import host_and_port
from .query_protocol import fingerprint
from .remote_identity import Identities, MungeIdentity, ServiceIdentity, leaf_of
from .server_tls import server_tls, why_unreadable
from .slurm_token import token_reader

ACCEPTED = "ADDRESS:PORT of this machine such as 10.0.0.1:9819, [::]:9819, or an empty text for no such door"


@dataclass(frozen=True)
class RemoteAccess:
    """What the door for other hosts needs."""

    address: tuple[str, int]
    tls: ssl.SSLContext | None  #: None on a loopback address without a certificate
    door: str  #: the fingerprint of the server's certificate; empty without one
    identities: Identities


def remote_access(settings: RemoteSettings, unmunge: Sequence[str] = ("unmunge",)) -> RemoteAccess | None:
    """Read the files that *settings* name; None where the door is off, ConfigError where it would not be safe."""
    if not settings.listen:
        return None
    address = host_and_port("remote.listen", settings.listen, ACCEPTED)
    tls, door = _tls(settings) if settings.certificate else (None, "")
    if tls is None:
        _demand_nothing_secret(settings, address[0])
    identities = Identities(
        MungeIdentity(unmunge) if settings.munge else None,
        token_reader(settings),
        ServiceIdentity(settings.services) if settings.services else None,
    )
    if not identities.accepted:
        raise ConfigError("remote.listen: nobody could ask; set remote.munge, a key of tokens or remote.services")
    return RemoteAccess(address, tls, door, identities)


def _demand_nothing_secret(settings: RemoteSettings, host: str) -> None:
    if not ipaddress.ip_address(host).is_loopback:
        raise ConfigError(
            f"remote.listen = {settings.listen!r}: other hosts are answered through TLS only; set remote.certificate"
            " and remote.key, or listen on a loopback address"
        )
    for name in ("token_key", "token_jwks", "services", "client_ca"):
        if getattr(settings, name):
            raise ConfigError(f"remote.{name}: needs TLS; set remote.certificate and remote.key")


def _tls(settings: RemoteSettings) -> tuple[ssl.SSLContext, str]:
    if bool(settings.services) != bool(settings.client_ca):
        raise ConfigError("remote.services and remote.client_ca are needed together")
    files = settings.certificate, settings.key, settings.client_ca
    context = server_tls("remote", *files, clients=ssl.CERT_OPTIONAL)
    try:
        return context, fingerprint(leaf_of(Path(settings.certificate)))
    except (OSError, ValueError) as error:
        raise ConfigError(f"remote.certificate: {why_unreadable(error, settings.certificate)}") from error
