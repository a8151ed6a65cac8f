"""Opening of munge credentials by the command ``unmunge``."""

from __future__ import annotations

import ipaddress
import re
import subprocess
from collections.abc import Sequence

from ... import interpreter

DECODE_S = 5.0

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


class CredentialRefused(Exception):
    """A forged, expired, replayed or foreign credential."""


class MungeUnavailable(Exception):
    """munged gave no verdict on a credential."""


def open_credential(unmunge: Sequence[str], line: bytes) -> tuple[bytes, int, IpAddress]:
    """Return payload, user and address of the encoder of the credential *line*, by the command *unmunge*.

    Raises CredentialRefused, or MungeUnavailable where munged does not answer.
    """
    try:
        done = subprocess.run(
            [*unmunge, "--keys=STATUS,ENCODE_HOST,UID"],
            input=line,
            capture_output=True,
            timeout=DECODE_S,
            cwd=interpreter.DIRECTORY,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MungeUnavailable(f"unmunge did not answer: {error}") from error
    head, _, payload = done.stdout.partition(b"\n\n")
    if done.returncode:
        status = re.search(rb"^STATUS: *(.*)$", head, re.MULTILINE)
        message = status[1] if status else done.stderr
        raise CredentialRefused(message.decode("utf-8", "replace").strip() or "no credential")
    host = re.search(rb"^ENCODE_HOST:.*\(([0-9A-Fa-f.:]+)\)$", head, re.MULTILINE)
    user = re.search(rb"^UID:.*\((\d+)\)$", head, re.MULTILINE)
    if host is None or user is None:
        raise MungeUnavailable("unmunge did not name the creator of the credential")
    return payload, int(user[1]), ip_address(host[1].decode("ascii"))


def ip_address(text: str) -> IpAddress:
    """Parse an address; one of IPv4 inside IPv6 becomes IPv4."""
    address = ipaddress.ip_address(text.partition("%")[0])
    return getattr(address, "ipv4_mapped", None) or address
