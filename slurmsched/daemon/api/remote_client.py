"""Asking a daemon on another host."""

from __future__ import annotations

import ipaddress
import socket
import ssl
import subprocess
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from ... import interpreter
from ...errors import ConfigError
from .query_arguments import AnswerRefused
from .query_protocol import DaemonUnreachable, answer_in, exchange, fingerprint, line_of, payload_of

GREETING_B = 4096
MUNGE_S = 5.0


@dataclass(frozen=True)
class RemoteDaemon:
    """A daemon's door for other hosts, and how this client proves its user."""

    server: str  #: HOST:PORT
    ca: str = ""  #: file of the authority of its certificate; empty means the system's
    token: str = field(default="", repr=False)  #: of Slurm
    certificate: str = ""  #: of a service
    key: str = ""
    user: str = ""  #: for whom the service speaks
    munge_socket: str = ""  #: empty means munge's own default
    token_alone: bool = False  #: the token is somebody else's, in whose name alone this client asks

    @property
    def address(self) -> tuple[str, int]:
        """The host and the port; ConfigError for a text of another form."""
        host, _, port = self.server.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not host or not (port.isdecimal() and port.isascii() and 0 < int(port) < 65536):
            raise ConfigError(f"{self.server!r} names no daemon; write HOST:PORT")
        return host, int(port)

    @property
    def encrypted(self) -> bool:
        """True unless it is a loopback address, and no authority is named."""
        try:
            return bool(self.ca) or not ipaddress.ip_address(self.address[0]).is_loopback
        except ValueError:
            return True


def query_remote(daemon: RemoteDaemon, request: Mapping[str, Any], timeout_s: float = 10.0) -> dict[str, Any]:
    """Send *request* to *daemon* and return the answer, within *timeout_s* in all.

    Raises DaemonUnreachable where none answers or it is not the one it should be, AnswerRefused with the daemon's own
    text where it refuses.
    """
    until_s = time.monotonic() + timeout_s
    named = f"the daemon on {daemon.server}"
    try:
        with ExitStack() as stack:
            stream = stack.enter_context(socket.create_connection(daemon.address, timeout=timeout_s))
            door = ""
            if daemon.encrypted:
                stream = stack.enter_context(_tls(daemon).wrap_socket(stream, server_hostname=daemon.address[0]))
                door = fingerprint(stream.getpeercert(binary_form=True) or b"")
            greeting = answer_in(_line(stream), named)
            line = exchange(stream, _envelope(daemon, request, greeting, door), until_s)
    except ssl.SSLCertVerificationError as error:
        raise DaemonUnreachable(f"{named} is not trusted: {error.verify_message or error}; see client.ca") from error
    except ssl.SSLError as error:
        raise DaemonUnreachable(f"{named} gave up the TLS connection: {error.reason or error}") from error
    except TimeoutError as error:
        raise DaemonUnreachable(f"{named} gave no answer within {timeout_s:g} s") from error
    except ConnectionRefusedError as error:
        raise DaemonUnreachable(f"no daemon listens on {daemon.server}; is the slurmsched service running?") from error
    except OSError as error:
        raise DaemonUnreachable(f"asking {named}: {error.strerror or error}") from error
    return answer_in(line, named)


def _tls(daemon: RemoteDaemon) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=daemon.ca or None)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        if daemon.certificate:
            context.load_cert_chain(daemon.certificate, daemon.key or None)
    except OSError as error:  # also ssl.SSLError
        files = ", ".join(filter(None, (daemon.ca, daemon.certificate, daemon.key)))
        raise ConfigError(f"{files}: {error.strerror or error}") from error
    return context


def _line(stream: socket.socket) -> bytes:
    line = bytearray()
    while not line.endswith(b"\n") and len(line) <= GREETING_B:
        chunk = stream.recv(GREETING_B)
        if not chunk:
            break
        line += chunk
    return bytes(line)


def _envelope(daemon: RemoteDaemon, request: Mapping[str, Any], greeting: Mapping[str, Any], door: str) -> bytes:
    """Return the line with *request* and a proof of the user, the first that the daemon accepts."""
    accepts = greeting.get("accepts") or ()
    if daemon.token_alone:
        if not (daemon.token and door and "token" in accepts):
            raise AnswerRefused(f"{daemon.server} takes no tokens of Slurm; see remote.token_key and remote.token_jwks")
        return line_of({"token": daemon.token, "request": request})
    if daemon.certificate and "certificate" in accepts:
        if not daemon.user:
            raise AnswerRefused("a service says in $SLURMSCHED_AS for which user it asks")
        return line_of({"as": daemon.user, "request": request})
    if daemon.token and "token" in accepts and door:
        return line_of({"token": daemon.token, "request": request})
    if "munge" in accepts:
        payload = payload_of(request, str(greeting.get("nonce")), door)
        return line_of({"munge": _munge(daemon.munge_socket, payload)})
    ways = {"token": "a token in $SLURM_JWT (scontrol token)", "certificate": "a service's certificate"}
    raise AnswerRefused(f"{daemon.server} needs {' or '.join(ways[one] for one in accepts if one in ways)}")


def _munge(path: str, payload: bytes) -> str:
    """Return a credential of this process's user with *payload*."""
    argv = ["munge", *([f"--socket={path}"] if path else [])]
    try:
        done = subprocess.run(
            argv, input=payload, capture_output=True, timeout=MUNGE_S, cwd=interpreter.DIRECTORY, check=False
        )
    except FileNotFoundError as error:
        raise AnswerRefused("munge is not installed here; set $SLURM_JWT to a token (scontrol token)") from error
    except subprocess.TimeoutExpired as error:
        raise AnswerRefused(f"munge gave no credential within {MUNGE_S:g} s") from error
    if done.returncode:
        raise AnswerRefused(f"munge gave no credential: {done.stderr.decode('utf-8', 'replace').strip()}")
    return done.stdout.decode("ascii", "replace").strip()
