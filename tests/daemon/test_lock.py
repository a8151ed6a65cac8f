from __future__ import annotations

import os
import subprocess
import sys

import pytest

from slurmsched.daemon.lock import StateLock
from slurmsched.errors import ConfigError


def test_a_second_daemon_is_refused_with_the_pid_of_the_first(tmp_path):
    with StateLock(tmp_path), pytest.raises(ConfigError, match=rf"pid {os.getpid()}\) holds .*one daemon per"):
        StateLock(tmp_path).__enter__()


def test_the_lock_is_free_after_an_end(tmp_path):
    for _ in range(2):
        with StateLock(tmp_path):
            assert (tmp_path / "daemon.lock").read_text() == f"{os.getpid()}\n"


def test_the_lock_is_free_after_a_kill(tmp_path):
    program = (
        f"import sys, time\nfrom slurmsched.daemon.lock import StateLock\n"
        f"with StateLock({str(tmp_path)!r}): print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout
        assert child.stdout.readline() == "held\n"
        with pytest.raises(ConfigError, match=f"pid {child.pid}"):
            StateLock(tmp_path).__enter__()
        child.kill()
    with StateLock(tmp_path):
        pass


def test_a_directory_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"absent/daemon\.lock: No such file.*daemon\.state_dir"):
        StateLock(tmp_path / "absent").__enter__()


def test_a_link_in_place_of_the_lock_is_not_followed(tmp_path):
    (tmp_path / "daemon.lock").symlink_to(tmp_path / "victim")
    with pytest.raises(ConfigError):
        StateLock(tmp_path).__enter__()
    assert not (tmp_path / "victim").exists()
