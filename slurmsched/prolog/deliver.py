"""Sends the records in the spool to the daemon, each as one munge credential or with a token; undeliverable ones stay.

A program of its own, started as root by the Slurm epilog or a sampler: Python 3.6 or newer, the standard library, and
munge, unless SLURMSCHED_COLLECTOR_CA names the authority of a daemon that takes tokens of Slurm through TLS. Its
arguments, if the job had a sampler, are that one's pid and start time in clock ticks: delivery waits for its record.
The settings of node.conf come in the environment as SLURMSCHED_NAME.
"""

import contextlib
import fcntl
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import syslog
import time

# ruff: noqa: UP006, UP022, UP035 - newer spellings do not run on Python 3.6
from typing import Iterator, List, Tuple

WHOLE_S = 120  #: limit, after which the kernel kills us
SAMPLER_S = 10.0
SENDING_S = 30.0
ANSWER_S = 20.0
ANSWER_B = 1000
GREETING_B = 4096
RECORD_B = 64 * 1024  #: no sampler writes more
RECORD = re.compile(r"[0-9]+\.[^/]+\.(json|fault|unstable)")


def wait_for_end(pid: int, since: str, patience_s: float) -> None:
    """Wait for the sampler to end, then kill it. One that hangs inside the driver survives that too: leave it."""
    for signum in (0, signal.SIGKILL):
        until_s = time.monotonic() + (patience_s if signum == 0 else 1.0)
        if not _runs(pid, since):
            return
        os.kill(pid, signum)
        while _runs(pid, since) and time.monotonic() < until_s:
            time.sleep(0.02)


def _runs(pid: int, since: str) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return False
    return fields[19] == since and fields[0] != "Z"


def open_spool(path: str) -> int:
    """Open the directory of records; PermissionError where others could have written into it."""
    spool = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    found = os.fstat(spool)
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise PermissionError(f"{path} is open to others; it must be mode 0700 and ours")
    return spool


def records(spool: int) -> Iterator[Tuple[str, bytes]]:
    """Yield name and text of each record, newest first: undeliverable old ones must not delay the new ones."""
    found = []
    for name in os.listdir(spool):
        with contextlib.suppress(FileNotFoundError):  # a sampler makes room meanwhile
            about = os.stat(name, dir_fd=spool, follow_symlinks=False)
            if RECORD.fullmatch(name) and stat.S_ISREG(about.st_mode) and about.st_size <= RECORD_B:
                found.append((about.st_mtime, name))
    for _, name in sorted(found, reverse=True):
        try:
            handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=spool)
        except FileNotFoundError:
            continue
        with os.fdopen(handle, "rb") as file:
            yield name, file.read(RECORD_B)


def credential(record: bytes) -> bytes:
    """Encode *record* in a credential that only the daemon's user can open."""
    argv: List[str] = [os.environ["SLURMSCHED_MUNGE"], "--restrict-uid=" + os.environ["SLURMSCHED_COLLECTOR_USER"]]
    if os.environ.get("SLURMSCHED_MUNGE_SOCKET"):
        argv.append("--socket=" + os.environ["SLURMSCHED_MUNGE_SOCKET"])
    made = subprocess.run(
        argv, input=record, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=ANSWER_S, cwd="/", check=False
    )
    if made.returncode:
        raise OSError("munge: " + made.stderr.decode("utf-8", "replace").strip())
    return made.stdout.strip() + b"\n"


def send(address: str, line: bytes) -> str:
    """Send *line* and return the receiver's answer: ``ok``, ``refused: WHY`` or ``later: WHY``."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_S) as stream:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # a busy receiver answers without reading
            stream.sendall(line)
        answer = b""
        while not answer.endswith(b"\n") and len(answer) < ANSWER_B:
            chunk = stream.recv(ANSWER_B)
            if not chunk:
                break
            answer += chunk
    return answer.decode("utf-8", "replace").strip()


def send_with_token(address: str, record: bytes, authority: str) -> str:
    """Send *record* through TLS with the token of this node, and return the receiver's answer as ``send`` does.

    The token is sent only to a receiver with a certificate of *authority* for the address.
    """
    import ssl  # few sites need it

    with open(os.environ["SLURMSCHED_TOKEN_FILE"]) as file:
        about = os.fstat(file.fileno())
        if about.st_uid != os.geteuid() or stat.S_IMODE(about.st_mode) & 0o077:
            raise PermissionError(f"{file.name} is open to others; it must be mode 0600 and ours")
        token = file.read().strip().rpartition("=")[2]  # scontrol token prints SLURM_JWT=TOKEN
    try:
        content = json.loads(record.decode())
    except ValueError as error:
        return f"refused: no JSON: {error}"
    envelope = {"token": token, "request": {"ask": "deliver", "record": content}}
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    context = ssl.create_default_context(cafile=authority)
    with contextlib.ExitStack() as stack:
        plain = stack.enter_context(socket.create_connection((host, int(port)), timeout=ANSWER_S))
        stream = stack.enter_context(context.wrap_socket(plain, server_hostname=host))
        lines = stack.enter_context(stream.makefile("rb"))
        lines.readline(GREETING_B)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            stream.sendall(json.dumps(envelope).encode() + b"\n")
        answer = json.loads(lines.readline(ANSWER_B).decode("utf-8", "replace"))
    return str(answer["answer"]) if "answer" in answer else f"later: {answer.get('error')}"


def deliver(address: str, spool: int) -> None:
    """Send the records in the spool; remove each that the receiver has accepted or will never accept."""
    authority = os.environ.get("SLURMSCHED_COLLECTOR_CA", "")
    # Another delivery may have listed the spool before our record was written.
    fcntl.flock(spool, fcntl.LOCK_EX)
    until_s = time.monotonic() + SENDING_S
    for name, record in records(spool):
        answer = send_with_token(address, record, authority) if authority else send(address, credential(record))
        if answer == "ok" or answer.startswith("refused: "):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=spool)
        if answer != "ok":
            complain(f"{name}: the collector said {answer or 'nothing'!r}")
        if time.monotonic() > until_s:
            return


def complain(text: str) -> None:
    """Write to syslog, for the admin."""
    syslog.openlog("slurmsched")
    syslog.syslog(syslog.LOG_NOTICE, text.encode("ascii", "backslashreplace").decode()[:500])


def main() -> None:
    """Wait for the sampler, then deliver; always exits with 0 unless it takes too long."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])  # a sampler that starts us has blocked some
    signal.alarm(WHOLE_S)
    os.closerange(3, 256)
    address = os.environ.get("SLURMSCHED_COLLECTOR", "")
    try:
        if len(sys.argv) == 3:
            wait_for_end(int(sys.argv[1]), sys.argv[2], SAMPLER_S)
        if address:
            deliver(address, open_spool(os.environ["SLURMSCHED_SPOOL_DIR"]))
    except FileNotFoundError as error:
        if error.filename != os.environ.get("SLURMSCHED_SPOOL_DIR"):  # no record has been written yet
            complain(f"no delivery to {address}: {error}")
    except Exception as error:  # the records wait for a later epilog
        complain(f"no delivery to {address}: {type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
