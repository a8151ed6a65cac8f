"""Two network namespaces with a cable between them, which nothing else reaches."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager


class NamespacesUnavailable(Exception):
    """This machine does not permit them; the text says why."""


@contextmanager
def cable(here: str, there: str) -> Iterator[tuple[str, str]]:
    """The names of two namespaces with the IPv4 addresses *here* and *there*, as long as the block runs."""
    word, made = secrets.token_hex(3), []
    ends = {f"ss{word}a": here, f"ss{word}b": there}
    first, second = ends
    try:
        for name in ends:
            _ip("netns", "add", name)
            made.append(name)
        _ip("link", "add", "cable", "netns", first, "type", "veth", "peer", "name", "cable", "netns", second)
        for name, address in ends.items():
            _ip("-n", name, "address", "add", f"{address}/24", "dev", "cable")
            _ip("-n", name, "link", "set", "cable", "up")
            _ip("-n", name, "link", "set", "lo", "up")
        yield first, second
    finally:
        for name in made:
            _ip("netns", "del", name)


def _ip(*words: str) -> None:
    try:
        done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    except OSError as error:
        raise NamespacesUnavailable(f"ip (iproute2): {error.strerror}") from error
    if done.returncode:
        raise NamespacesUnavailable(f"ip {' '.join(words)}: {done.stderr.strip()}")
