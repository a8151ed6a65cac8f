"""TLS of the ports for other hosts."""

from __future__ import annotations

import ssl

from ...errors import ConfigError
from .private_file import demand_private


def server_tls(section: str, certificate: str, key: str, client_ca: str, clients: ssl.VerifyMode) -> ssl.SSLContext:
    """Return a context from files in PEM, the settings of *section*; ConfigError where they are not safe or not valid.

    An empty *key* is in *certificate*. With *client_ca*, clients show a certificate of it, as *clients* says.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0
    private = demand_private(f"{section}.key", key or certificate)
    try:
        context.load_cert_chain(certificate, private, password="")  # or openssl asks at the terminal
    except (OSError, ValueError) as error:  # also ssl.SSLError
        raise ConfigError(f"{section}.certificate, {section}.key: {why_unreadable(error, certificate)}") from error
    if client_ca:
        try:
            context.load_verify_locations(cafile=client_ca)
        except OSError as error:
            raise ConfigError(f"{section}.client_ca: {why_unreadable(error, client_ca)}") from error
        context.verify_mode = clients
    return context


def why_unreadable(error: Exception, path: str) -> str:
    """Return why the file in PEM at *path* could not be used."""
    if isinstance(error, ssl.SSLError):
        return f"not a certificate and its key in PEM ({error.reason or error})"
    if isinstance(error, OSError):
        return f"{error.filename or path}: {error.strerror or error}"
    return f"not a certificate in PEM ({error})"
