"""A budget of refused requests for each address, so that garbage costs its sender and not the daemon."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass

BURST = 60.0  #: refusals at once: a node whose jobs end together before the daemon has seen them
PER_S = 1.0  #: refusals a second in the long run
MOST = 4096  #: addresses that are remembered; the oldest is forgotten first


@dataclass
class _Account:
    left: float
    filled_s: float


class RefusalBudget:
    """Counts refusals of each address: ``BURST`` at once, ``PER_S`` after that. Accepted requests cost nothing.

    *monotonic* is a clock in seconds that never decreases. It may be called from any thread.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._accounts: dict[Hashable, _Account] = {}

    def spent(self, address: Hashable) -> bool:
        """Return whether *address* has no refusal left: nothing of it should be examined now."""
        with self._lock:
            account = self._accounts.get(address)
            return account is not None and self._filled(account).left < 1.0

    def charge(self, address: Hashable) -> None:
        """Count a refusal of *address*."""
        with self._lock:
            account = self._accounts.pop(address, None) or _Account(BURST, self._monotonic())
            self._filled(account).left -= 1.0
            self._accounts[address] = account  # the last one charged is the last to be forgotten
            if len(self._accounts) > MOST:
                del self._accounts[next(iter(self._accounts))]

    def _filled(self, account: _Account) -> _Account:
        now_s = self._monotonic()
        account.left = min(BURST, account.left + (now_s - account.filled_s) * PER_S)
        account.filled_s = now_s
        return account
