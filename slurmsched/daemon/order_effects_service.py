"""What other orders would do to the queue: played in a process of its own, when somebody asks, and kept a while."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock, Thread

from ..child_process import ChildFailed, ChildProcess
from ..clock import Clock
from ..cluster.records.order_effects import OrderEffects
from ..cluster.state import View
from ..decide.policy import Policy

logger = logging.getLogger(__name__)

FRESH_S = 600.0  #: between two plays, whoever asks
TIMEOUT_S = 600.0
ORDERS = ("fifo", "sjf", "qssf", "wfq", "edf")
"""The orderings that are played beside the present one: those that stop nobody."""

PLAYING = "the queue is being played forward; ask again in a moment"
NOBODY = "no job waits"


@dataclass(frozen=True)
class PlayedOrders:
    """The latest effects; *note* says why there are none, or no newer ones."""

    effects: OrderEffects | None = None
    note: str = ""


class OrderEffectsService:
    """Plays the queue by the module *worker*, one play at a time, however many ask.

    *policy* is the one in force, *config* Slurm's, *every_s* the time between cycles.
    """

    def __init__(
        self,
        worker: str,
        policy: Callable[[], Policy],
        config: Callable[[], Mapping[str, str]],
        every_s: float,
        clock: Clock,
    ) -> None:
        self._process = ChildProcess(worker, "comparison of orders")
        self._policy, self._config, self._every_s, self._clock = policy, config, every_s, clock
        self._lock = Lock()
        self._thread: Thread | None = None
        self._latest, self._begun_s = PlayedOrders(), -float("inf")

    def of(self, view: View, mode: str) -> PlayedOrders:
        """Return the latest effects at once; where they are old, new ones of *view* are begun."""
        if not len(view.pending):
            return PlayedOrders(note=NOBODY)
        with self._lock:
            playing = self._thread is not None and self._thread.is_alive()
            if not playing and self._clock.monotonic() >= self._begun_s + FRESH_S:
                self._begun_s, playing = self._clock.monotonic(), True
                self._thread = Thread(target=self._play, args=(view, mode), name="order-effects", daemon=True)
                self._thread.start()
            latest = self._latest
        return PlayedOrders(latest.effects, PLAYING) if playing else latest

    def close(self) -> None:
        """Stop the process, also in the middle of a play."""
        self._process.close()

    def _play(self, view: View, mode: str) -> None:
        policy = self._policy().without_plugins()
        in_force = mode == "act" and "order" in policy.rules.powers
        request = (view, policy.to_json(), self._config(), self._every_s, in_force, ORDERS)
        try:
            error, effects = self._process.ask(request, TIMEOUT_S)
        except ChildFailed as failure:
            error, effects = str(failure), None
        if effects is None:
            logger.warning("orders were not compared: %s", error)
            self._latest = PlayedOrders(self._latest.effects, f"orders were not compared: {error}")
        else:
            assert isinstance(effects, OrderEffects)
            self._latest = PlayedOrders(effects)
