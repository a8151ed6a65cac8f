"""Loopback ports reserved for a lab while it starts."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from slurmsched.errors import LabError

#: below the ephemeral range, so that no outgoing connection takes one
LOWEST, HIGHEST = 20_000, 32_000
TRIES = 200


@contextmanager
def hold_ports(count: int, dice: random.Random) -> Iterator[range]:
    """Reserve *count* consecutive free ports, against every other lab, until the block ends.

    Each is bound exclusively, which tests and claims it in one step, and only then opened for a
    listener that sets SO_REUSEADDR, as all of Slurm's and MariaDB's do.
    """
    for _ in range(TRIES):
        first = dice.randrange(LOWEST, HIGHEST - count)
        ports = range(first, first + count)
        with ExitStack() as held:
            if all(_claim(port, held) for port in ports):
                yield ports
                return
    raise LabError(f"found no {count} neighbouring free TCP ports between {LOWEST} and {HIGHEST} in {TRIES} tries")


def _claim(port: int, held: ExitStack) -> bool:
    claim = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
    try:
        claim.bind(("0.0.0.0", port))  # noqa: S104  the widest claim; it never listens
    except OSError:
        return False
    claim.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return True
