"""Messages to systemd: the sd_notify protocol, one datagram per message."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping

logger = logging.getLogger(__name__)

SEND_TIMEOUT_S = 1.0


class Notifier:
    """Reports the daemon's state to the service manager; does nothing where there is none.

    A message that cannot be sent is logged and dropped: systemd must not be able to stop a cycle.
    """

    def __init__(self, address: str = "", watchdog_s: float | None = None) -> None:
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self.watchdog_s = watchdog_s  #: systemd's limit for silence; None without a watchdog

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Notifier:
        """Return the notifier that systemd set up through NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID."""
        usec, pid = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", "")
        meant = usec.isdecimal() and int(usec) > 0 and pid in ("", str(os.getpid()))
        return cls(environ.get("NOTIFY_SOCKET", ""), int(usec) / 1e6 if meant else None)

    def ready(self, status: str) -> None:
        """Report that the daemon serves, or serves again after a reload."""
        self._send(f"READY=1\nSTATUS={_line(status)}")

    def status(self, text: str) -> None:
        """Set the line that ``systemctl status`` shows."""
        self._send(f"STATUS={_line(text)}")

    def alive(self) -> None:
        """Feed the watchdog, where one is set."""
        if self.watchdog_s is not None:
            self._send("WATCHDOG=1")

    def reloading(self, monotonic_s: float) -> None:
        """Report the start of a reload; *monotonic_s* (CLOCK_MONOTONIC) matches it to the coming READY."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={int(monotonic_s * 1e6)}")

    def stopping(self, status: str) -> None:
        """Report the start of an ordered stop."""
        self._send(f"STOPPING=1\nSTATUS={_line(status)}")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as datagrams:
                datagrams.settimeout(SEND_TIMEOUT_S)
                datagrams.sendto(message.encode(errors="replace"), self._address)
        except OSError as error:
            logger.warning("systemd did not receive %r at %r: %s", message.partition("\n")[0], self._address, error)


def _line(text: str) -> str:
    return " ".join(text.split())[:500]
