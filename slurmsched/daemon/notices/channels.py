"""How notices leave: sendmail, a webhook, or what Apprise knows; none waits for long, whatever the other side does."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate
from importlib.util import find_spec
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

from ...config.service_settings import NoticesSettings
from ...errors import ConfigError, MissingExtra, SlurmschedError
from .events import Notice
from .messages import Message
from .recipients import ADDRESS

TIMEOUT_S = 20.0
ANSWER_B = 4096  #: of a webhook that are read
RECIPIENT = "{recipient}"  #: in a URL of Apprise
_STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})[ \r\n]")


class NoticeFailed(SlurmschedError):
    """A notice that was not taken; the text says why, and holds no secret."""


class Channel(Protocol):
    """A way out."""

    @property
    def reaches_owners(self) -> bool:
        """True if it can address one person."""
        ...

    def send(self, to: Sequence[str], message: Message, notice: Notice) -> None:
        """Send a message to these addresses; NoticeFailed where it was not taken."""
        ...


@dataclass(frozen=True)
class Sendmail:
    """The local mail program, which gets the message on its standard input and the recipients as arguments."""

    program: str
    sender: str
    reaches_owners: bool = True
    timeout_s: float = TIMEOUT_S

    def send(self, to: Sequence[str], message: Message, notice: Notice) -> None:
        """Hand the message to the mail program; one that hangs is ended."""
        body = self.mail(to, message, notice)
        try:
            done = subprocess.run(
                [self.program, "-i", "-f", self.sender, "--", *to],
                input=body,
                capture_output=True,
                timeout=self.timeout_s,
                check=False,
                cwd="/",
            )
        except subprocess.TimeoutExpired:
            raise NoticeFailed(f"{self.program} took longer than {self.timeout_s:g} s") from None
        except OSError as error:
            raise NoticeFailed(f"{self.program}: {error.strerror}") from error
        if done.returncode:
            words = done.stderr.decode("utf-8", "replace").strip()[:200]
            raise NoticeFailed(f"{self.program} ended with status {done.returncode}: {words!r}")

    def mail(self, to: Sequence[str], message: Message, notice: Notice) -> bytes:
        """Return the mail with its headers, with the line ends of a text on this machine."""
        mail = EmailMessage(policy=SMTP)
        mail["From"], mail["To"], mail["Subject"] = self.sender, ", ".join(to), message.subject
        mail["Date"] = formatdate(notice.at_s)
        mail["Auto-Submitted"] = "auto-generated"  # no holiday note answers it
        mail.set_content(message.text)
        return mail.as_bytes(policy=SMTP.clone(linesep="\n"))


@dataclass(frozen=True)
class Webhook:
    """One address for all notices: a JSON object by HTTP POST. Redirects are not followed."""

    url: str = field(repr=False)
    reaches_owners: bool = True
    timeout_s: float = TIMEOUT_S
    context: ssl.SSLContext | None = None

    def send(self, to: Sequence[str], message: Message, notice: Notice) -> None:
        """Post the message; any answer but 2xx, and none in time, is a failure."""
        body = {
            "kind": notice.kind,
            "to": list(to),
            "subject": message.subject,
            "text": message.text,
            "job_id": notice.job_id or None,
            "user": notice.owner or None,
            "at_s": notice.at_s,
        }
        try:
            status = asyncio.run(asyncio.wait_for(self._post(json.dumps(body).encode("ascii")), self.timeout_s))
        except TimeoutError:
            raise NoticeFailed(f"the webhook took longer than {self.timeout_s:g} s") from None
        except (OSError, ValueError, asyncio.IncompleteReadError) as error:  # its text may have the address
            raise NoticeFailed(f"the webhook cannot be reached: {type(error).__name__}") from None
        if not 200 <= status < 300:
            raise NoticeFailed(f"the webhook answered with status {status}")

    async def _post(self, body: bytes) -> int:
        parts = urlsplit(self.url)
        secure, host = parts.scheme == "https", parts.hostname or ""
        context = (self.context or ssl.create_default_context()) if secure else None
        reader, writer = await asyncio.open_connection(
            host, parts.port or (443 if secure else 80), ssl=context, limit=ANSWER_B
        )
        try:
            path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._") + (f"?{parts.query}" if parts.query else "")
            head = (
                f"POST {path} HTTP/1.1\r\nHost: {parts.netloc.rpartition('@')[2]}\r\nConnection: close\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            writer.write(head.encode("ascii") + body)
            await writer.drain()
            found = _STATUS.match(await reader.readline())
            if found is None:
                raise ValueError
            return int(found[1])
        finally:
            writer.transport.abort()


@dataclass(frozen=True)
class ByApprise:
    """Services that Apprise knows, by its URLs; those with ``{recipient}`` in them reach owners, the others admins."""

    urls: tuple[str, ...] = field(repr=False)

    @property
    def reaches_owners(self) -> bool:
        """True if one of the services addresses one person."""
        return any(RECIPIENT in url for url in self.urls)

    def send(self, to: Sequence[str], message: Message, notice: Notice) -> None:
        """Send to each of *to* by the services that address people, and what is for admins by the others too."""
        import apprise

        sender = apprise.Apprise()
        personal = [url.replace(RECIPIENT, quote(one, safe="")) for url in self.urls if RECIPIENT in url for one in to]
        common = [url for url in self.urls if RECIPIENT not in url] if not notice.owner else []
        for url in (*personal, *common):
            if not sender.add(url):
                raise NoticeFailed("Apprise does not know one of the URLs of notices.apprise")
        if not sender:
            return
        if not sender.notify(message.text, title=message.subject, body_format=apprise.NotifyFormat.TEXT):
            raise NoticeFailed("a service did not take it (Apprise)")


def channel_of(settings: NoticesSettings) -> Channel:
    """Return the channel of these settings; ConfigError where it lacks something."""
    if settings.channel == "sendmail":
        if not ADDRESS.fullmatch(settings.sender):
            raise ConfigError(f"notices.sender is {settings.sender!r}; accepted: an address such as slurm@example.org")
        return Sendmail(settings.sendmail, settings.sender)
    if settings.channel == "webhook":
        _demand_url(settings.webhook)
        return Webhook(settings.webhook)
    if not settings.apprise:
        raise ConfigError("notices.apprise is empty; accepted: URLs of Apprise with blanks between them")
    if find_spec("apprise") is None:
        raise MissingExtra('notices.channel = "apprise" needs Apprise', "notices")
    return ByApprise(tuple(settings.apprise.split()))


def _demand_url(url: str) -> None:
    accepted = "accepted: http:// or https:// with a host, without a name or password in it"
    try:
        parts: Any = urlsplit(url)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None
        fine = (
            fine and url.isascii() and url.isprintable() and " " not in url and (parts.port is None or parts.port > 0)
        )
    except ValueError:
        fine = False
    if not fine:
        raise ConfigError(f"notices.webhook is {'a hidden value' if url else 'empty'}; {accepted}")


def demand_valid_notices(settings: NoticesSettings) -> None:
    """Raise ConfigError where notices are on and could not be sent."""
    if not settings.enabled:
        return
    channel_of(settings)
    if wrong := [one for one in settings.admins if not ADDRESS.fullmatch(one)]:
        raise ConfigError(f"notices.admins has {wrong[0]!r}; accepted: addresses such as root@example.org")
    if settings.domain and not ADDRESS.fullmatch(f"a@{settings.domain}"):
        raise ConfigError(f"notices.domain is {settings.domain!r}; accepted: a domain such as example.org")
