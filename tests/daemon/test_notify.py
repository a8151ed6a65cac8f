from __future__ import annotations

import os
import secrets
import socket

import pytest

from slurmsched.daemon.notify import Notifier


@pytest.fixture(params=["path", "abstract"])
def systemd(request, tmp_path):
    """A listening service manager, and the NOTIFY_SOCKET it would set."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        name = str(tmp_path / "notify") if request.param == "path" else f"@slurmsched-{secrets.token_hex(8)}"
        manager.bind("\0" + name[1:] if name.startswith("@") else name)
        manager.settimeout(60.0)
        yield manager, name


def test_ready_comes_with_a_status(systemd):
    manager, name = systemd
    Notifier(name).ready("one cycle every 15 s")
    assert manager.recv(4096) == b"READY=1\nSTATUS=one cycle every 15 s"


def test_a_status_is_one_line_whatever_is_in_it(systemd):
    manager, name = systemd
    Notifier(name).status("cycle 1\nREADY=1\nMAINPID=1 \udcff" + "x" * 10_000)
    message = manager.recv(65536)
    assert message.startswith(b"STATUS=cycle 1 READY=1 MAINPID=1 ?xxx")
    assert b"\n" not in message
    assert len(message) < 600


def test_a_reload_is_announced_with_the_time_systemd_asks_for(systemd):
    manager, name = systemd
    Notifier(name).reloading(12.5)
    assert manager.recv(4096) == b"RELOADING=1\nMONOTONIC_USEC=12500000"


def test_the_end_is_announced(systemd):
    manager, name = systemd
    Notifier(name).stopping("stopping")
    assert manager.recv(4096) == b"STOPPING=1\nSTATUS=stopping"


def test_the_watchdog_is_fed_only_where_one_is_set(systemd):
    manager, name = systemd
    Notifier(name).alive()
    Notifier(name, watchdog_s=60.0).alive()
    assert manager.recv(4096) == b"WATCHDOG=1"


def test_the_environment_sets_it_up():
    assert Notifier.from_environment({"WATCHDOG_USEC": "60000000"}).watchdog_s == 60.0
    assert Notifier.from_environment({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": str(os.getpid())}).watchdog_s == 60.0


@pytest.mark.parametrize(
    "environ", [{}, {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": "soon"}, {"WATCHDOG_USEC": "9", "WATCHDOG_PID": "1"}]
)
def test_a_watchdog_that_is_not_for_us_is_none(environ):
    assert Notifier.from_environment(environ).watchdog_s is None


def test_without_systemd_nothing_is_sent_and_nothing_fails(caplog):
    Notifier.from_environment({}).ready("here")
    assert caplog.text == ""


def test_a_manager_that_is_gone_is_logged_and_survived(caplog, tmp_path):
    Notifier(str(tmp_path / "gone")).ready("here")
    assert "systemd did not receive 'READY=1'" in caplog.text
