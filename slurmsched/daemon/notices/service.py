"""Notices beside the cycles: watched, worded, limited and sent in a thread of their own."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from ...clock import Clock, Timer
from ...config.service_settings import NoticesSettings
from ...cycle import CycleReport
from ...errors import ConfigError, SlurmschedError
from ..api.hourly_warning import HourlyWarning
from ..cycle_follower import CycleFollower
from .channels import Channel, NoticeFailed, channel_of
from .events import ADMINS, Look, Notice, Watcher
from .messages import message_of
from .recipients import Recipients

logger = logging.getLogger(__name__)

HOUR_S = 3600.0
QUEUE_MOST = 500  #: notices that wait to be sent; the oldest give way
READERS_MOST = 10_000  #: readers whose last hour is remembered
BUDGET_S = 60.0  #: for sending after one cycle; the rest comes after the next
PAUSE_S, PAUSE_MOST_S = 60.0, HOUR_S  #: after a failure, twice as long after each further one
OLD_S = HOUR_S  #: after which a notice is no news any more


@dataclass
class _Reader:
    """The last hour of one reader."""

    sent: deque[float]
    left_out: int = 0


class NoticeService(CycleFollower):
    """Sends notices by the *settings* in force; *look* makes of a cycle what they come from.

    *counted* is called with the result of each: sent, failed, limited, nobody, old.
    """

    leader_only = True

    def __init__(
        self,
        settings: Callable[[], NoticesSettings],
        look: Callable[[CycleReport], Look],
        recipients: Recipients,
        cluster: str,
        clock: Clock,
        counted: Callable[[str], None] = lambda result: None,
        channels: Callable[[NoticesSettings], Channel] = channel_of,
    ) -> None:
        super().__init__("notices")
        self._settings, self._look, self._recipients = settings, look, recipients
        self._cluster, self._clock, self._counted, self._channels = cluster, clock, counted, channels
        self._watcher: Watcher | None = None
        self._queue: deque[Notice] = deque(maxlen=QUEUE_MOST)
        self._readers: dict[str, _Reader] = {}
        self._pause, self._failures = Timer(clock.monotonic), 0
        self._warning = HourlyWarning(logger, clock.monotonic)

    def _work(self) -> None:
        settings = self._settings()
        if not settings.enabled:
            self._watcher = None
            self._queue.clear()
            return
        with self._news:
            report = self._report
        assert report is not None
        if self._watcher is None:
            self._watcher = Watcher(settings.moved_s)
        kinds = set(settings.kinds)
        found = self._watcher.seen(self._look(report))
        self._queue.extend(one for one in found if not kinds or one.kind in kinds)
        if self._queue and self._pause.due:
            self._send_all(settings)

    def _send_all(self, settings: NoticesSettings) -> None:
        """Send what waits, until the time is over or the other side fails."""
        channel, until_s = self._channels(settings), self._clock.monotonic() + BUDGET_S
        while self._queue and self._clock.monotonic() < until_s and not self._stopping:
            notice = self._queue.popleft()
            if self._clock.now() - notice.at_s > OLD_S:
                self._counted("old")
                continue
            try:
                self._counted(self._send(notice, settings, channel))
                self._failures = 0
            except NoticeFailed as error:
                self._counted("failed")
                self._pause.put_off(min(PAUSE_S * 2**self._failures, PAUSE_MOST_S))
                self._failures = min(self._failures + 1, 16)
                self._queue.appendleft(notice)
                self._warning.warn(f"a notice was not sent: {error}")
                return
            except ConfigError as error:
                self._counted("failed")
                self._warning.warn(str(error))

    def _send(self, notice: Notice, settings: NoticesSettings, channel: Channel) -> str:
        """Send one notice, and return what became of it."""
        if notice.owner == ADMINS:
            to = settings.admins
        elif settings.owners and channel.reaches_owners:
            address = self._recipients.of(notice.job_id, notice.owner, settings.domain)
            to = (address,) if address else ()
        else:
            to = ()
        if not to and notice.owner != ADMINS:
            return "nobody"
        if not to and settings.channel == "sendmail":
            return "nobody"
        reader, now_s = self._reader(notice.owner or "(admins)"), self._clock.now()
        if len(reader.sent) >= settings.per_hour:
            reader.left_out += 1
            return "limited"
        message = message_of(notice, self._cluster, directory=settings.templates, left_out=reader.left_out)
        channel.send(to, message, notice)
        reader.sent.append(now_s)
        reader.left_out = 0
        return "sent"

    def _reader(self, name: str) -> _Reader:
        """Return what one reader got within the last hour; by owner, since one may name many addresses."""
        since_s = self._clock.now() - HOUR_S
        if name not in self._readers and len(self._readers) >= READERS_MOST:
            self._readers = {
                key: one for key, one in self._readers.items() if (one.sent and one.sent[-1] > since_s) or one.left_out
            }
        reader = self._readers.setdefault(name, _Reader(deque()))
        while reader.sent and reader.sent[0] <= since_s:
            reader.sent.popleft()
        return reader

    def _failed(self, error: SlurmschedError) -> None:
        self._pause.put_off(PAUSE_S)
        self._warning.warn(f"notices were not sent: {error}")

    def _abandon(self) -> None:
        """End nothing: a message that is under way ends by its own time limit."""
