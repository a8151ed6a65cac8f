from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading

from daemon_worlds import wait_until

from slurmsched.daemon.signals import Flags, listening


def test_sighup_asks_for_a_reload_and_wakes():
    flags = Flags()
    with listening(flags):
        os.kill(os.getpid(), signal.SIGHUP)
        assert flags.wake.wait(60.0)
        assert flags.take_reload()
        assert not flags.take_reload()
        assert not flags.stop


def test_the_first_sigterm_asks_for_a_stop_and_wakes():
    flags = Flags()
    with listening(flags):
        os.kill(os.getpid(), signal.SIGTERM)
        assert flags.wake.wait(60.0)
        assert flags.stop


def test_sigusr1_asks_for_a_stop_that_keeps_the_order():
    flags = Flags()
    with listening(flags):
        os.kill(os.getpid(), signal.SIGUSR1)
        assert flags.wake.wait(60.0)
        assert (flags.stop, flags.keep_jobs) == (True, True)


def test_the_handlers_of_before_come_back_and_no_thread_stays():
    before = signal.getsignal(signal.SIGTERM)
    with listening(Flags()):
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before
    assert "signals" not in [thread.name for thread in threading.enumerate()]


def test_the_second_sigterm_kills_at_once_even_where_the_main_thread_hangs():
    program = """
        import threading, time
        from slurmsched.daemon.signals import Flags, listening
        flags = Flags()
        with listening(flags):
            print("up", flush=True)
            flags.wake.wait()
            print("asked", flush=True)
            while True:
                time.sleep(60)
        """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout
        try:
            assert child.stdout.readline() == "up\n"
            child.send_signal(signal.SIGTERM)
            assert child.stdout.readline() == "asked\n"
            assert child.poll() is None
            child.send_signal(signal.SIGTERM)
            assert child.wait(90.0) == 128 + signal.SIGTERM
        finally:
            child.kill()


def test_a_storm_of_sighups_is_one_reload():
    flags = Flags()
    with listening(flags):
        for _ in range(500):
            os.kill(os.getpid(), signal.SIGHUP)
        wait_until(lambda: flags.reload)
    assert flags.take_reload()
