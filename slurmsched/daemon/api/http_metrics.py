"""``/metrics`` and ``/healthz`` over HTTP, for local clients; for others through TLS, with a certificate."""

from __future__ import annotations

import ipaddress
import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from ...config import MetricsSettings
from ...errors import ConfigError
from ..follower import Follower
from .listener import Listener, Peer, host_and_port, tcp_server, unix_server
from .server_tls import server_tls

logger = logging.getLogger(__name__)

ACCEPTED = "127.0.0.1:PORT, [::1]:PORT, unix:/PATH, or an empty text for no endpoint"
HEAD_B = 16384


@dataclass(frozen=True)
class Address:
    """The endpoint's address: a loopback address and port, or the path of a unix socket."""

    host: str = ""
    port: int = 0
    path: str = ""

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class MetricsAccess:
    """The endpoint's address, and who may read it."""

    address: Address
    tls: ssl.SSLContext | None = None  #: None where all local clients may
    scrapers: frozenset[str] = frozenset()  #: DNS names in the certificates of those who may, with TLS


def metrics_access(settings: MetricsSettings) -> MetricsAccess | None:
    """Read the files that *settings* name; None for no endpoint, ConfigError where it would not be safe."""
    address = parse_listen(settings.listen, local=not settings.certificate)
    if address is None:
        return None
    if not settings.certificate:
        for name in ("key", "client_ca", "scrapers"):
            if getattr(settings, name):
                raise ConfigError(f"metrics.{name}: needs TLS; set metrics.certificate")
        return MetricsAccess(address)
    if address.path:
        raise ConfigError("metrics.certificate: a unix socket has no TLS; set metrics.listen to an address and port")
    if not (settings.client_ca and settings.scrapers):
        raise ConfigError(
            "metrics.certificate is set, but no client is allowed: set metrics.client_ca and metrics.scrapers"
        )
    files = settings.certificate, settings.key, settings.client_ca
    tls = server_tls("metrics", *files, clients=ssl.CERT_REQUIRED)
    return MetricsAccess(address, tls, frozenset(settings.scrapers))


def parse_listen(text: str, *, local: bool = True) -> Address | None:
    """Parse ``metrics.listen``; None for no endpoint, ConfigError for no address, or one that is not *local*."""
    if not text:
        return None
    if text.startswith("unix:"):
        if not text.startswith("unix:/"):
            raise ConfigError(f"metrics.listen = {text!r}: the path must begin with /; accepted: {ACCEPTED}")
        return Address(path=text.removeprefix("unix:"))
    number = text.removeprefix("localhost:")
    host, port = host_and_port("metrics.listen", text if number == text else f"127.0.0.1:{number}", ACCEPTED)
    if local and not ipaddress.ip_address(host).is_loopback:
        raise ConfigError(
            f"metrics.listen = {text!r}: {host} can be reached from elsewhere, which needs metrics.certificate;"
            f" without, accepted: {ACCEPTED}"
        )
    return Address(host=host, port=port)


class MetricsServer(Follower):
    """Serves *registry* and the verdict of *problem* (empty: healthy) as *access* says; ConfigError if that is in use.

    A healthy verdict includes the text of *degraded*: a failure of a part that no cycle needs. *access* is called again
    after a reload. *counted* gets the result of each visit: answered, tls or certificate.
    """

    def __init__(
        self,
        access: Callable[[], MetricsAccess | None],
        registry: CollectorRegistry,
        problem: Callable[[], str],
        degraded: Callable[[], str] = lambda: "",
        counted: Callable[[str], None] = lambda result: None,
    ) -> None:
        first = access()
        if first is None:
            raise ConfigError("metrics.listen: no address")
        self._read, self._access, address = access, first, first.address
        self._registry, self._problem, self._degraded = registry, problem, degraded
        self._counted = counted
        server = (
            unix_server(Path(address.path), 0o660)
            if address.path
            else tcp_server("metrics.listen", (address.host, address.port))
        )
        self._path = Path(address.path) if address.path else None
        #: the actual address: a free port in place of port 0
        self.address = address if address.path else Address(address.host, server.getsockname()[1])
        self._listener = Listener(
            server,
            self._respond,
            name="metrics",
            end=b"\r\n\r\n",
            too_long=lambda: _response(
                "431 Request Header Fields Too Large", "text/plain", b"the request is too long\n"
            ),
            request_b=HEAD_B,
            tls=self._tls if first.tls else None,
            tls_failed=lambda: counted("tls"),
        )

    def start(self) -> None:
        """Start to serve."""
        self._listener.start()

    def close(self) -> None:
        """Stop, and remove the socket file."""
        self._listener.close()
        if self._path:
            self._path.unlink(missing_ok=True)

    def renew(self) -> None:
        """Use the certificates and names that the settings have now; the address stays."""
        access = self._read()
        if access is None or bool(access.tls) != bool(self._access.tls):
            logger.warning("switching metrics.listen or its TLS on or off takes effect only after a restart")
            return
        self._access = access

    def _tls(self) -> ssl.SSLContext:
        assert self._access.tls is not None
        return self._access.tls

    async def _respond(self, request: bytes, peer: Peer) -> bytes:
        if self._access.tls and not self._access.scrapers.intersection(peer.services or ()):
            self._counted("certificate")
            return _response("403 Forbidden", "text/plain", b"metrics.scrapers has no name of your certificate\n")
        self._counted("answered")
        return self._answer(request.decode("latin-1"))

    def _answer(self, head: str) -> bytes:
        request, *lines = head.split("\r\n")
        method, _, rest = request.partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if method not in ("GET", "HEAD"):
            return _response(
                "405 Method Not Allowed", "text/plain", b"only GET and HEAD\n", extra="Allow: GET, HEAD\r\n"
            )
        if path == "/metrics":
            encode, kind = choose_encoder(headers.get("accept", "application/openmetrics-text"))
            status, body = "200 OK", encode(self._registry)
        elif path == "/healthz":
            problem = self._problem()
            status, kind = ("503 Service Unavailable" if problem else "200 OK"), "text/plain; charset=utf-8"
            body = f"{problem or '; '.join(filter(None, ('ok', self._degraded())))}\n".encode(errors="replace")
        else:
            status, kind, body = "404 Not Found", "text/plain", b"here are /metrics and /healthz\n"
        return _response(status, kind, body, head_only=method == "HEAD")


def _response(status: str, kind: str, body: bytes, *, head_only: bool = False, extra: str = "") -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{extra}"
        "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    )
    return head.encode("latin-1") + (b"" if head_only else body)
