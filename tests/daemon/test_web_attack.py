"""Hostile clients of slurmsched web: slow ones, very many, very long headers. Beats of the process
that holds the daemon's door, beside its threads that answer, come on time."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
import time
from urllib.request import Request, urlopen

import pytest

pytest.importorskip("flask")
pytest.importorskip("waitress")

from test_web import door, of, site  # noqa: F401  # fixtures

pytestmark = pytest.mark.soak

ATTACK_S = float(os.environ.get("ATTACK_S", "600"))
BEAT_S, LATE_S = 0.5, 1.0
SLOW, MANY = 200, 40


@pytest.fixture
def web(door, site, tmp_path):  # noqa: F811
    """The address of the program, a process of its own in front of the daemon's door in this one."""
    file = tmp_path / "slurmsched.toml"
    server = f"127.0.0.1:{door.server.address[1]}"
    file.write_text(f"[client]\nserver = '{server}'\nca = '{site.file}'\n[web]\nlisten = '127.0.0.1:0'\n")
    words = [sys.executable, "-u", "-m", "slurmsched", "--config", str(file), "web"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as program:
        try:
            yield re.match(r".* on http://127\.0\.0\.1:(\d+)/api", program.stdout.readline())[1]
        finally:
            program.terminate()


def slowly(port, stop):
    """Send a request a byte at a time, again and again."""
    while not stop.is_set():
        try:
            with socket.create_connection(("127.0.0.1", int(port)), 5) as one:
                for byte in b"GET /queue HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 1000:
                    one.sendall(bytes([byte]))
                    if stop.wait(1.0):
                        return
        except OSError:
            stop.wait(1.0)


def with_long_headers(port, stop):
    """Send headers of a MiB."""
    while not stop.is_set():
        try:
            with socket.create_connection(("127.0.0.1", int(port)), 5) as one:
                one.sendall(b"GET /queue HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 2**20 + b"\r\n\r\n")
                one.recv(1000)
        except OSError:
            pass
        stop.wait(0.5)


def politely(port, stop, answered):
    """Ask as a user does, as often as answers come."""
    while not stop.is_set():
        try:
            with urlopen(Request(f"http://127.0.0.1:{port}/api/v1/queue", headers=of("nobody")), timeout=20) as answer:
                answered.append(answer.status)
        except OSError:
            pass
        stop.wait(0.2)


def test_slow_clients_many_clients_and_long_headers_delay_no_beat_of_the_daemon_and_users_are_served_after(web):
    stop, answered, late_s = threading.Event(), [], []
    targets = [(slowly, ())] * SLOW + [(with_long_headers, ())] * MANY + [(politely, (answered,))] * 4
    threads = [threading.Thread(target=one, args=(web, stop, *more), daemon=True) for one, more in targets]
    for thread in threads:
        thread.start()
    due_s = time.monotonic() + BEAT_S
    ends_s = due_s + ATTACK_S
    while due_s < ends_s:
        time.sleep(max(due_s - time.monotonic(), 0.0))
        late_s.append(time.monotonic() - due_s)
        due_s += BEAT_S
    stop.set()
    for thread in threads:
        thread.join(60)
    print(f"{len(late_s)} beats, the latest {max(late_s):.3f} s late; {len(answered)} answers meanwhile")
    assert max(late_s) <= LATE_S
    assert answered, "some were served meanwhile"
    with urlopen(Request(f"http://127.0.0.1:{web}/api/v1/queue", headers=of("nobody")), timeout=60) as answer:
        assert answer.status == 200
