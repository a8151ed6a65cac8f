"""The receiver of nodes' measurements: one munge credential in, one line out."""

from __future__ import annotations

import ipaddress
import logging
import re
import socket
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ... import interpreter
from ...clock import Clock
from ...cluster.records.faults import Fault, Instability
from ...cluster.records.profiles import NodeProfile
from ...errors import ConfigError, SlurmschedError
from ..api.listener import BACKLOG, Listener, Peer, Turns
from .fault_record import read_delivery
from .profile_record import BadRecord

logger = logging.getLogger(__name__)

ACCEPTED = "ADDRESS:PORT of this machine such as 10.0.0.1:9818, [::]:9818, or an empty text for no collector"
CREDENTIAL_B = 128 * 1024
CONVERSATIONS = 512  #: a large job ends on all its nodes at once
PER_ADDRESS = 32  #: of them from one address: a node whose jobs end together
PATIENCE_S = 20.0
DECODE_S = 5.0
WORKERS = 4

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


class Refused(Exception):
    """A rejected record; ``result`` is the label it is counted under.

    *final*: it will never be accepted, so the node may drop it. A cause that an admin can remove is not final.
    """

    def __init__(self, result: str, text: str, *, final: bool = False) -> None:
        super().__init__(text)
        self.result, self.final = result, final


@dataclass(frozen=True)
class Receiver:
    """The receiver's dependencies; all are called from its threads."""

    addresses: Callable[[str], frozenset[str]]  #: the IP addresses of a node; empty for an unknown node
    ran: Callable[[int, str], bool | None]  #: whether a job ran on a node; None where that is unknown (yet)
    save: Callable[[NodeProfile], None]  #: may raise SlurmschedError: the node then sends it again later
    keep_fault: Callable[[Fault], None] = lambda fault: None  #: the same of jobs that failed together
    save_unstable: Callable[[Instability], None] = lambda instability: (
        None
    )  #: and of jobs whose load together is unstable
    gone: Callable[[int, float], bool] = lambda job_id, end_s: False  #: whether an ended job's nodes will stay unknown
    counted: Callable[[str], None] = lambda result: None  #: called with the result of each delivery


def parse_listen(text: str) -> tuple[str, int] | None:
    """Parse the address and port of ``profile.listen``; None for no receiver, ConfigError for an invalid one."""
    if not text:
        return None
    host, _, port = text.rpartition(":")
    try:
        address = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError as error:
        raise ConfigError(f"profile.listen = {text!r}: {error}; accepted: {ACCEPTED}") from error
    if not (port.isdecimal() and port.isascii() and int(port) < 65536):
        raise ConfigError(f"profile.listen = {text!r}: {port!r} is no port; accepted: {ACCEPTED}")
    return str(address), int(port)


class ProfileReceiver:
    """Receives records on TCP at *address*, checks them and hands them on; ConfigError if the address is in use.

    A record counts only if root of a node of the cluster sent it, about a job that ran on that very node. Answers are
    ``ok``, ``refused: WHY`` (never again) and ``later: WHY``. *unmunge* is the command that opens credentials.
    """

    def __init__(
        self, address: tuple[str, int], receiver: Receiver, clock: Clock, *, unmunge: Sequence[str] = ("unmunge",)
    ) -> None:
        self._receiver, self._clock = receiver, clock
        self._unmunge = [*unmunge, "--keys=STATUS,ENCODE_HOST,UID"]
        server = _tcp_server(address)
        #: the actual address: a free port in place of port 0
        self.address: tuple[str, int] = server.getsockname()[:2]
        self._results: Counter[str] = Counter()
        self._counting = threading.Lock()
        self._workers = Turns(WORKERS, "collector")
        self._listener = Listener(
            server,
            self._receive,
            name="collector",
            busy=b"later: too many are delivering at once\n",
            too_long=self._overlong,
            request_b=CREDENTIAL_B,
            most=CONVERSATIONS,
            most_per_peer=PER_ADDRESS,
            patience_s=PATIENCE_S,
        )

    @property
    def results(self) -> dict[str, int]:
        """Return the number of deliveries per result: ``ok``, or the reason for refusal."""
        with self._counting:
            return dict(self._results)

    def start(self) -> None:
        """Start to receive records."""
        self._listener.start()

    def close(self) -> None:
        """Stop; deliveries under way are lost and sent again."""
        self._listener.close()
        self._workers.close()

    async def _receive(self, line: bytes, peer: Peer) -> bytes:
        return await self._workers.run(peer, lambda: self._answer(line, _address(peer.address)), PATIENCE_S)

    def _overlong(self) -> bytes:
        self._count("size")
        return f"refused: a credential has at most {CREDENTIAL_B} bytes\n".encode()

    def _answer(self, line: bytes, peer: IpAddress) -> bytes:
        try:
            self._take(line, peer)
            result, answer = "ok", "ok"
        except Refused as refusal:
            result, answer = refusal.result, f"{'refused' if refusal.final else 'later'}: {refusal}"
        except SlurmschedError as error:
            result, answer = "unavailable", f"later: {error}"
        except Exception:  # one delivery must never end the thread that takes the others
            logger.exception("a bug in taking a record from %s", peer)
            result, answer = "bug", "later: a bug in the daemon; its log has details"
        self._count(result)
        if result != "ok":
            logger.warning("a record from %s was not accepted: %s", peer, answer)
        return " ".join(answer.split()).encode("ascii", "backslashreplace") + b"\n"

    def _take(self, line: bytes, peer: IpAddress) -> None:
        payload, uid, origin = self._open(line)
        if uid != 0:
            raise Refused("user", f"user {uid} made the credential; only root of a node may", final=True)
        try:
            record = read_delivery(payload, self._clock.now())
        except BadRecord as error:
            raise Refused("record", str(error), final=True) from error
        # On a node whose name resolves to 127.0.1.1 on itself, munged reports only that address.
        host = peer if origin.is_loopback or origin.is_unspecified else origin
        addresses = {_address(text) for text in self._receiver.addresses(record.node)}
        if host not in addresses:
            raise Refused("host", f"{host} is not known as an address of node {record.node}")
        ran = self._receiver.ran(record.job_id, record.node)
        if not ran:
            why = f"job {record.job_id} was not seen" + (f" on node {record.node}" if ran is False else "")
            raise Refused("job", why, final=ran is False or self._receiver.gone(record.job_id, record.end_s))
        if isinstance(record, Fault):
            self._receiver.keep_fault(record)
        elif isinstance(record, Instability):
            self._receiver.save_unstable(record)
        else:
            self._receiver.save(record)

    def _open(self, line: bytes) -> tuple[bytes, int, IpAddress]:
        """Return payload, user and address of the encoder; Refused for a forged, replayed or foreign one."""
        try:
            done = subprocess.run(
                self._unmunge,
                input=line,
                capture_output=True,
                timeout=DECODE_S,
                cwd=interpreter.DIRECTORY,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Refused("munge", f"unmunge did not answer: {error}") from error
        head, _, payload = done.stdout.partition(b"\n\n")
        if done.returncode:
            status = re.search(rb"^STATUS: *(.*)$", head, re.MULTILINE)
            message = status[1] if status else done.stderr
            raise Refused("credential", message.decode("utf-8", "replace").strip() or "no credential")
        host = re.search(rb"^ENCODE_HOST:.*\(([0-9A-Fa-f.:]+)\)$", head, re.MULTILINE)
        user = re.search(rb"^UID:.*\((\d+)\)$", head, re.MULTILINE)
        if host is None or user is None:
            raise Refused("munge", "unmunge did not name the creator of the credential")
        return payload, int(user[1]), _address(host[1].decode("ascii"))

    def _count(self, result: str) -> None:
        with self._counting:
            self._results[result] += 1
        self._receiver.counted(result)


def _address(text: str) -> IpAddress:
    address = ipaddress.ip_address(text.partition("%")[0])
    return getattr(address, "ipv4_mapped", None) or address


def _tcp_server(address: tuple[str, int]) -> socket.socket:
    host, port = address
    server = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(address)
        server.listen(BACKLOG)
    except OSError as error:
        server.close()
        raise ConfigError(f"profile.listen: opening {host} port {port}: {error.strerror or error}") from error
    return server
