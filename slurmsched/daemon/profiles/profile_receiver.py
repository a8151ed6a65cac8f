"""The receiver of nodes' measurements and of jobs' reports: a record and its proven maker in, one line out."""

from __future__ import annotations

import json
import logging
import math
import pwd
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...clock import Clock
from ...cluster.records.faults import Fault, Instability
from ...cluster.records.profiles import NodeProfile
from ...errors import SlurmschedError
from ..api.hourly_warning import HourlyWarning
from ..api.listener import Listener, Peer, Turns, host_and_port, tcp_server
from ..api.munge_credential import CredentialRefused, IpAddress, MungeUnavailable, ip_address, open_credential
from ..api.refusal_budget import RefusalBudget
from ..follower import Follower
from .fault_record import delivery_of
from .profile_record import BadRecord, Record, opened
from .progress_report import REPORT_B, ProgressReport, ReportedEarly, ReportRefused, report_of

logger = logging.getLogger(__name__)

ACCEPTED = "ADDRESS:PORT of this machine such as 10.0.0.1:9818, [::]:9818, or an empty text for no collector"
CREDENTIAL_B = 128 * 1024
CONVERSATIONS = 512  #: a large job ends on all its nodes at once
PER_ADDRESS = 32  #: of them from one address: a node whose jobs end together
PATIENCE_S = 20.0
WORKERS = 4


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
    report: Callable[[ProgressReport, int], bool] | None = None
    """Takes a report of a job's progress, made by that user; True where the job should end. None refuses all."""

    counted_report: Callable[[str], None] = lambda result: None  #: called with the result of each report


def parse_listen(text: str) -> tuple[str, int] | None:
    """Parse the address and port of ``profile.listen``; None for no receiver, ConfigError for an invalid one."""
    return host_and_port("profile.listen", text, ACCEPTED) if text else None


class RecordIntake:
    """Checks delivered records and hands them on, whatever proved their makers.

    A record counts only if root of a node of the cluster sent it, about a job that ran on that very node. Answers are
    ``ok``, ``refused: WHY`` (never again) and ``later: WHY``. A report of progress counts if the job's owner made it on
    a node where the job runs; its answers are ``ok``, ``stop: WHY``, ``refused: WHY`` and ``later: SECONDS``.
    The user that *node_user* names counts as root of a node.

    An address has a budget of what was not accepted; beyond it nothing of it is opened for a while, since opening a
    credential costs a process.
    """

    def __init__(self, receiver: Receiver, clock: Clock, node_user: Callable[[], str] = lambda: "") -> None:
        self._receiver, self._clock, self._node_user = receiver, clock, node_user
        self._results: Counter[str] = Counter()
        self._counting = threading.Lock()
        self._budget = RefusalBudget(clock.monotonic)
        self._refused = HourlyWarning(logger, clock.monotonic)

    @property
    def results(self) -> dict[str, int]:
        """Return the number of deliveries per result: ``ok``, or the reason for refusal."""
        with self._counting:
            return dict(self._results)

    def take(self, record: object, uid: int, host: str) -> str:
        """Take a *record* that the user *uid* sent through the door for other hosts, and return the answer."""
        address = ip_address(host)
        return self.answer(lambda: (_compact(record), uid, address), address)

    def answer(self, read: Callable[[], tuple[bytes, int, IpAddress]], peer: IpAddress) -> str:
        """Return the answer to the record that *read* gives with its maker and the maker's host."""
        if self._budget.spent(peer):
            self.count("budget")
            return "later: 1"  # second, as a report is told
        try:
            payload, uid, host = read()
            record = self._checked(payload, uid)
            if "progress" in record:
                return _one_line(self._report(record, uid, host, peer))
            self._take(record, host)
            result, answer = "ok", "ok"
        except Refused as refusal:
            result, answer = refusal.result, f"{'refused' if refusal.final else 'later'}: {refusal}"
        except SlurmschedError as error:
            result, answer = "unavailable", f"later: {error}"
        except Exception:  # one delivery must never end the thread that takes the others
            logger.exception("a bug in taking a record from %s", peer)
            result, answer = "bug", "later: a bug in the daemon; its log has details"
        self.count(result)
        if result != "ok":
            self._budget.charge(peer)
            self._refused.warn(f"a record from {peer} was not accepted: {answer}")
        return _one_line(answer)

    def count(self, result: str) -> None:
        """Count one delivery."""
        with self._counting:
            self._results[result] += 1
        self._receiver.counted(result)

    def _checked(self, payload: bytes, uid: int) -> Record:
        try:
            record = opened(payload)
        except BadRecord as error:
            raise Refused("record", str(error), final=True) from error
        report = "progress" in record and len(payload) <= REPORT_B
        if not report and not self._is_node(uid):
            raise Refused("user", f"user {uid} sent the record; only root of a node may", final=True)
        return record

    def _is_node(self, uid: int) -> bool:
        try:
            return uid == 0 or uid == pwd.getpwnam(self._node_user()).pw_uid
        except KeyError:
            return False

    def _report(self, record: Record, uid: int, host: IpAddress, peer: IpAddress) -> str:
        """Take a job's report and return the answer to it."""
        try:
            if self._receiver.report is None:
                raise ReportRefused("off", "no reports are read here")
            report = report_of(record)
            self._check_host(host, report.node)
            stop = self._receiver.report(report, uid)
            result, answer = ("stop", "stop: the training has what stop= asks for") if stop else ("ok", "ok")
        except ReportedEarly as early:
            result, answer = "later", f"later: {math.ceil(early.wait_s)}"
        except ReportRefused as refusal:
            result, answer = refusal.result, f"refused: {refusal}"
        except BadRecord as bad:
            result, answer = "record", f"refused: {bad}"
        except Refused as refusal:
            result, answer = refusal.result, f"refused: {refusal}"
        self._receiver.counted_report(result)
        if result not in ("ok", "stop"):
            self._budget.charge(peer)
        return answer

    def _check_host(self, host: IpAddress, node: str) -> None:
        if host not in {ip_address(text) for text in self._receiver.addresses(node)}:
            raise Refused("host", f"{host} is not known as an address of node {node}")

    def _take(self, found: Record, host: IpAddress) -> None:
        try:
            record = delivery_of(found, self._clock.now())
        except BadRecord as error:
            raise Refused("record", str(error), final=True) from error
        self._check_host(host, record.node)
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


class ProfileReceiver(Follower):
    """Receives munge credentials with records on TCP at *address*; ConfigError if the address is in use.

    What *receiver* and *clock* make of them is that of RecordIntake. *unmunge* is the command that opens credentials.
    """

    def __init__(
        self, address: tuple[str, int], receiver: Receiver, clock: Clock, *, unmunge: Sequence[str] = ("unmunge",)
    ) -> None:
        self._intake = RecordIntake(receiver, clock)
        self._unmunge = tuple(unmunge)
        server = tcp_server("profile.listen", address)
        #: the actual address: a free port in place of port 0
        self.address: tuple[str, int] = server.getsockname()[:2]
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
        return self._intake.results

    def start(self) -> None:
        """Start to receive records."""
        self._listener.start()

    def close(self) -> None:
        """Stop; deliveries under way are lost and sent again."""
        self._listener.close()
        self._workers.close()

    async def _receive(self, line: bytes, peer: Peer) -> bytes:
        host = ip_address(peer.address)
        answer = await self._workers.run(
            peer, lambda: self._intake.answer(lambda: self._opened(line, host), host), PATIENCE_S
        )
        return answer.encode("ascii") + b"\n"

    def _overlong(self) -> bytes:
        self._intake.count("size")
        return f"refused: a credential has at most {CREDENTIAL_B} bytes\n".encode()

    def _opened(self, line: bytes, peer: IpAddress) -> tuple[bytes, int, IpAddress]:
        """Return what the credential *line* holds, its maker and the maker's host."""
        try:
            payload, uid, origin = open_credential(self._unmunge, line)
        except MungeUnavailable as error:
            raise Refused("munge", str(error)) from error
        except CredentialRefused as error:
            raise Refused("credential", str(error)) from error
        # On a node whose name resolves to 127.0.1.1 on itself, munged reports only that address.
        return payload, uid, peer if origin.is_loopback or origin.is_unspecified else origin


def _compact(record: object) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode("ascii")


def _one_line(answer: str) -> str:
    return " ".join(answer.split()).encode("ascii", "backslashreplace").decode("ascii")
