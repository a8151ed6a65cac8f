"""``/metrics`` and ``/healthz`` over HTTP, for local clients only."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from ...errors import ConfigError
from .listener import Listener, Peer, host_and_port, tcp_server, unix_server

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


def parse_listen(text: str) -> Address | None:
    """Parse ``metrics.listen``; None for no endpoint, ConfigError for an address that other hosts could reach."""
    if not text:
        return None
    if text.startswith("unix:"):
        if not text.startswith("unix:/"):
            raise ConfigError(f"metrics.listen = {text!r}: the path must begin with /; accepted: {ACCEPTED}")
        return Address(path=text.removeprefix("unix:"))
    local = text.removeprefix("localhost:")
    host, port = host_and_port("metrics.listen", text if local == text else f"127.0.0.1:{local}", ACCEPTED)
    if not ipaddress.ip_address(host).is_loopback:
        raise ConfigError(f"metrics.listen = {text!r}: {host} can be reached from elsewhere; accepted: {ACCEPTED}")
    return Address(host=host, port=port)


class MetricsServer:
    """Serves *registry* and the verdict of *problem* (empty: healthy) at *address*; ConfigError if it is in use.

    A healthy verdict includes the text of *degraded*: a failure of a part that no cycle needs.
    """

    def __init__(
        self,
        address: Address,
        registry: CollectorRegistry,
        problem: Callable[[], str],
        degraded: Callable[[], str] = lambda: "",
    ) -> None:
        self._registry, self._problem, self._degraded = registry, problem, degraded
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
        )

    def start(self) -> None:
        """Start to serve."""
        self._listener.start()

    def close(self) -> None:
        """Stop, and remove the socket file."""
        self._listener.close()
        if self._path:
            self._path.unlink(missing_ok=True)

    async def _respond(self, request: bytes, peer: Peer) -> bytes:
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
