"""IP addresses of a node, by Slurm's configuration and the name service."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence

from ...errors import SlurmRefused, SlurmUnavailable
from .records import heads

KEEP_S = 600.0  #: lifetime of a cached address; nodes rarely change theirs
NODES_MOST = 100_000


class NodeAddresses:
    """A cache of the addresses of nodes, each looked up at most once in ten minutes; any thread may call it.

    *query* runs one of Slurm's commands and returns its output, as ``CommandRunner.query`` does.
    """

    def __init__(self, query: Callable[[Sequence[str]], str], monotonic: Callable[[], float]) -> None:
        self._query, self._monotonic = query, monotonic
        self._addresses: dict[str, tuple[float, frozenset[str]]] = {}

    def __call__(self, node: str) -> frozenset[str]:
        """Resolve the name and the NodeAddr of *node*; empty where Slurm has no such node.

        Raises SlurmUnavailable where slurmctld does not answer.
        """
        now_s = self._monotonic()
        until_s, addresses = self._addresses.get(node, (now_s, frozenset[str]()))
        if until_s > now_s:
            return addresses
        addresses = self._look_up(node)
        if len(self._addresses) >= NODES_MOST:
            self._addresses.clear()
        self._addresses[node] = (now_s + KEEP_S, addresses)
        return addresses

    def _look_up(self, node: str) -> frozenset[str]:
        try:
            printed = self._query(["sinfo", "-a", "-N", "-n", node, "-O", "NodeAddr:256"])
        except SlurmRefused:
            return frozenset()
        header, *names = printed.split() or [""]
        if not heads(header, "NodeAddr"):
            raise SlurmUnavailable("sinfo printed something that is not its answer")
        return frozenset(address for name in {node, *names} for address in _resolved(name)) if names else frozenset()


def _resolved(name: str) -> list[str]:
    try:
        return [str(found[4][0]) for found in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)]
    except (OSError, UnicodeError):
        return []
