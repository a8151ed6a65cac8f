from __future__ import annotations

import json
import os
import signal
import socket
import threading
from dataclasses import dataclass, replace

import pytest
from daemon_worlds import ask, seen, wait_until

from slurmsched.clock import ManualClock, SystemClock
from slurmsched.cluster.records.prediction_records import NO_RECORDS
from slurmsched.cluster.records.predictions import prediction_table
from slurmsched.config import DaemonSettings, MetricsSettings
from slurmsched.daemon.api.http_metrics import metrics_access
from slurmsched.daemon.api.query_protocol import DaemonUnreachable
from slurmsched.daemon.api.questions.contract import Sources
from slurmsched.daemon.follower import Follower
from slurmsched.daemon.lock import StateLock
from slurmsched.daemon.metrics import Metrics
from slurmsched.daemon.notify import Notifier
from slurmsched.daemon.predictions.prediction_service import PredictionService
from slurmsched.daemon.service import Service, ServiceParts, metrics_door
from slurmsched.daemon.signals import Flags
from slurmsched.errors import ConfigError, MemoryUnavailable, SlurmError, SlurmschedError, SlurmUnavailable
from slurmsched.explain.why import Why


@dataclass
class Control:
    paused: bool = False
    by: str = ""


def endpoint(listen):
    """Read the settings of an endpoint for metrics at *listen*."""
    return lambda: metrics_access(MetricsSettings(listen))


class Memory:
    """A peer of the memory: what the daemon looks at, settable."""

    def __init__(self):
        self.trouble, self.told, self.until_s = "", Control(), float("inf")

    @property
    def available(self):
        return not self.trouble

    def control(self, now_s):
        return Control() if now_s >= self.until_s else self.told


class Leadership:
    """A leadership that can be lost, taken by another, or be impossible to look up."""

    def __init__(self):
        self.ours, self.free, self.away, self.released = False, True, False, 0

    def held(self):
        if self.away:
            raise MemoryUnavailable("PostgreSQL does not answer")
        return self.ours

    def acquire(self):
        self.ours = self.free
        return self.ours

    def release(self):
        self.ours = False
        self.released += 1


class World:
    """A service with everything round it in the test's hands."""

    def __init__(self, tmp_path, clock=None, listen="", **known):
        self.tmp_path, self.clock = tmp_path, clock or ManualClock(1000.0)
        self.memory, self.leadership, self.modes, self.trouble = Memory(), Leadership(), [], None
        self.shown: dict[str, object] = {}  #: what the reports of its cycles say instead
        self.metrics = Metrics(lambda: "sjf", lambda: 0.0)
        settings = DaemonSettings(mode="act", every_s=1800.0, state_dir=str(tmp_path), run_dir=str(tmp_path))
        self.parts = ServiceParts(
            cycle=self.cycle,
            clock=self.clock,
            settings=settings,
            memory=self.memory,
            leadership=self.leadership,
            metrics=self.metrics,
            sources=lambda status: Sources(
                status, self.tell, self.tell, lambda view, plan: {}, lambda job_id, since_s: []
            ),
            doors=[metrics_door(endpoint(listen), self.metrics)],
            **known,
        )
        self.service = Service(self.parts)

    def tell(self, view, plan, job_id, beside):
        return Why(job_id, True, "pending", "ranked", "Priority", f"job {job_id} waits", "", "", 1, 0, 0, 0)

    def cycle(self, now_s, mode):
        self.modes.append(mode)
        if self.trouble:
            raise self.trouble
        return replace(seen(len(self.modes)), **self.shown)

    def value(self, name, **labels):
        return self.metrics.registry.get_sample_value(name, labels)


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def test_the_configured_mode_reaches_the_cycle(world):
    world.service.once()
    assert world.modes == ["act"]
    assert world.value("slurmsched_mode", mode="act") == 1


def test_a_pause_is_seen_by_the_next_cycle_and_so_is_its_end(world):
    world.service.once()
    world.memory.told = Control(True, "root")
    world.service.once()
    assert world.service.status()["why_mode"] == "paused by root"
    assert world.value("slurmsched_paused") == 1
    world.memory.told = Control()
    world.service.once()
    assert world.modes == ["act", "observe", "act"]
    assert world.value("slurmsched_paused") == 0


def test_a_pause_with_an_end_ends_by_itself(world):
    world.memory.told, world.memory.until_s = Control(True, "root"), 1010.0
    world.service.once()
    world.clock.now_s = 1010.0
    world.service.once()
    assert world.modes == ["observe", "act"]


def test_without_the_leadership_it_observes_and_tries_again_each_cycle(world):
    world.leadership.free = False
    world.service.once()
    assert world.service.status()["why_mode"] == "another daemon leads this cluster"
    assert world.value("slurmsched_leader") == 0
    world.leadership.free = True
    world.service.once()
    assert world.modes == ["observe", "act"]


class Listening(Follower):
    """A part beside the cycles that notes what it is told."""

    def __init__(self, *, leader_only):
        self.leader_only, self.cycles = leader_only, []

    def observe(self, report):
        self.cycles.append(report.number)


def test_each_follower_hears_of_each_cycle_and_some_only_of_those_of_the_leader(tmp_path):
    followers = [Listening(leader_only=False), Listening(leader_only=True)]
    world = World(tmp_path, followers=followers)
    world.leadership.free = False
    world.service.once()
    world.leadership.free = True
    world.service.once()
    assert [one.cycles for one in followers] == [[1, 2], [2]]


def test_a_leadership_that_cannot_be_looked_up_is_none(world):
    world.leadership.away = True
    world.service.once()
    assert world.modes == ["observe"]
    assert "PostgreSQL does not answer" in world.service.status()["why_mode"]


def test_after_a_bug_it_observes_and_says_so(world):
    world.trouble = ZeroDivisionError("division by zero")
    world.service.once()
    assert world.service.status()["mode"] == "observe"
    assert world.value("slurmsched_fallback_active", part="bug") == 1
    world.trouble = None
    world.service.once()
    assert world.modes == ["act", "observe"]
    assert "division by zero" in world.service.status()["why_mode"]


def test_who_does_not_act_though_it_is_to_is_not_healthy(world):
    world.service.once()
    assert world.service.problem() == ""
    world.leadership.away = True
    world.service.once()
    assert world.service.problem() == "it only observes: the leader cannot be determined"
    world.leadership.away = False
    world.trouble = KeyError("/secret/path of ~a-nonce")
    world.service.once()
    assert world.service.problem() == "a bug in slurmsched; the log has details; it only observes until a reload"
    world.trouble = None
    world.service.once()
    assert "until a reload" in world.service.problem(), "cycles end well, and nothing is done"
    assert world.service.status()["problem"] == world.service.problem()


def test_who_is_not_to_act_is_healthy(world):
    world.leadership.free = False
    world.service.once()
    assert world.service.problem() == ""
    world.leadership.free = True
    world.memory.told = Control(True, "root")
    world.service.once()
    assert world.service.problem() == ""


def test_a_cycle_without_enough_memory_is_lost_and_no_bug(world):
    world.trouble = MemoryError()
    world.service.once()
    assert world.service.status()["last_error"] == "there was not enough memory for a cycle"
    world.trouble = None
    world.service.once()
    assert world.modes == ["act", "act"]


def test_a_lost_cycle_shows_in_the_status_with_the_last_good_one(world):
    world.service.once()
    world.trouble = SlurmUnavailable("squeue did not answer")
    world.service.once()
    status = world.service.status()
    assert status["last_error"] == "squeue did not answer"
    assert status["cycle"]["number"] == 1
    json.dumps(status, allow_nan=False)


def test_once_takes_the_lock_and_gives_the_leadership_up(world, tmp_path):
    world.service.once()
    assert world.leadership.released == 1
    with StateLock(tmp_path), pytest.raises(ConfigError, match="another slurmsched daemon"):
        world.service.once()


class Running:
    """A service run for real, in the main thread, with a test's steps in another; systemd listens."""

    def __init__(self, tmp_path, **known):
        self.systemd = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.systemd.bind(str(tmp_path / "notify"))
        self.systemd.setblocking(False)
        self.heard: list[str] = []
        notifier = Notifier(str(tmp_path / "notify"), watchdog_s=known.pop("watchdog_s", 60.0))
        self.world = World(
            tmp_path,
            clock=SystemClock(),
            notifier=notifier,
            listen=f"unix:{tmp_path}/m.sock",
            **known,
        )
        self.failed: list[BaseException] = []

    def told(self) -> list[str]:
        """All that systemd has heard so far."""
        try:
            while True:
                self.heard.append(self.systemd.recv(65536).decode())
        except BlockingIOError:
            return self.heard

    def lived(self, steps) -> None:
        """Run until *steps* are done and SIGTERM has been obeyed."""

        def script():
            try:
                wait_until(lambda: self.world.modes)
                steps()
            except BaseException as error:  # handed to the test, in the other thread
                self.failed.append(error)
            finally:
                os.kill(os.getpid(), signal.SIGTERM)

        actor = threading.Thread(target=script)
        actor.start()
        with self.systemd:
            self.world.service.run()
            actor.join()
            self.told()
        if self.failed:
            raise self.failed[0]


def test_it_starts_serves_and_stops_in_order(tmp_path):
    running = Running(tmp_path)
    path = tmp_path / "slurmsched.sock"

    def steps():
        wait_until(lambda: ask(path, {"ask": "status"}).get("cycle"))
        assert ask(path, {"ask": "why", "job_id": 7})["why"]["reason"] == "job 7 waits"
        assert b"200 OK" in http(tmp_path / "m.sock", "/healthz")
        wait_until(lambda: b"slurmsched_pending_jobs 2.0" in http(tmp_path / "m.sock", "/metrics"))

    running.lived(steps)
    assert running.heard[0].startswith("READY=1\nSTATUS=one cycle every 1800 s")
    assert any(message.startswith("STATUS=cycle 1: 2 pending, nothing to do.; ") for message in running.heard)
    assert "WATCHDOG=1" in running.heard
    assert running.heard[-1] == "STOPPING=1\nSTATUS=stopping"
    assert running.world.leadership.released == 1
    assert sorted(file.name for file in tmp_path.iterdir()) == ["daemon.lock", "notify"]
    with pytest.raises(DaemonUnreachable):
        ask(path, {"ask": "status"})


class Failing:
    """A play-forward and its database, of which the first fails."""

    def predict(self, view, plan, mode):
        raise SlurmschedError("the process that plays forward has died")

    def load(self, since_s):
        return NO_RECORDS

    def save(self, kept):
        pass

    def close(self):
        pass


class Working(Failing):
    """A play-forward that waits until it may answer, and then has no job to predict."""

    def __init__(self):
        self.may_answer = threading.Event()

    def predict(self, view, plan, mode):
        assert self.may_answer.wait(120.0)
        return prediction_table(0)


def test_predictions_that_work_are_no_trouble_before_the_first_one_or_after_it(tmp_path):
    player = Working()
    made = PredictionService(player, player, SystemClock(), 60.0, (0.85, 0.95))
    running = Running(tmp_path, followers=[made])

    def healthy():
        status = ask(tmp_path / "slurmsched.sock", {"ask": "status"})
        assert (status["degraded"], status["problem"]) == ("", "")
        assert http(tmp_path / "m.sock", "/healthz").splitlines()[-1] == b"ok"

    def steps():
        wait_until(lambda: "cycle" in ask(tmp_path / "slurmsched.sock", {"ask": "status"}))
        healthy()
        player.may_answer.set()
        wait_until(lambda: made.latest().table is not None)
        healthy()

    running.lived(steps)


def test_predictions_that_fail_show_in_the_status_and_in_the_health(tmp_path):
    made = PredictionService(Failing(), Failing(), SystemClock(), 60.0, (0.85, 0.95))
    running = Running(tmp_path, followers=[made])

    def steps():
        wait_until(lambda: "has died" in made.latest().trouble)
        degraded = "no new predictions: the process that plays forward has died"
        status = ask(tmp_path / "slurmsched.sock", {"ask": "status"})
        assert (status["degraded"], status["problem"]) == (degraded, "")
        answer = http(tmp_path / "m.sock", "/healthz").splitlines()
        assert (answer[0], answer[-1]) == (b"HTTP/1.1 200 OK", f"ok; {degraded}".encode())

    running.lived(steps)


def test_a_plug_in_that_failed_shows_by_name_in_the_status_and_in_the_health(tmp_path):
    trouble = "ordering 'mylas' failed, since it raised KeyError: jobs stay in the order that they have"
    running = Running(tmp_path)
    running.world.shown = {"fallbacks": ("ordering 'mylas'",), "plugin_trouble": trouble}

    def steps():
        wait_until(lambda: ask(tmp_path / "slurmsched.sock", {"ask": "status"}).get("cycle"))
        status = ask(tmp_path / "slurmsched.sock", {"ask": "status"})
        assert (status["degraded"], status["problem"]) == (trouble, "")
        assert status["cycle"]["fallbacks"] == ["ordering 'mylas'"]
        answer = http(tmp_path / "m.sock", "/healthz").splitlines()
        assert (answer[0], answer[-1]) == (b"HTTP/1.1 200 OK", f"ok; {trouble}".encode())

    running.lived(steps)


def http(path, target) -> bytes:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
        stream.settimeout(60.0)
        stream.connect(str(path))
        stream.sendall(f"GET {target} HTTP/1.0\r\n\r\n".encode())
        with stream.makefile("rb") as answer:
            return answer.read()


def test_health_goes_bad_with_the_reason_when_slurm_is_silent_from_the_start(tmp_path):
    running = Running(tmp_path)
    running.world.trouble = SlurmUnavailable("squeue did not answer")
    running.lived(
        lambda: wait_until(
            lambda: (
                (answer := http(tmp_path / "m.sock", "/healthz")).startswith(b"HTTP/1.1 503")
                and b"squeue did not answer" in answer
            )
        )
    )
    assert "STATUS=the last cycle was lost: squeue did not answer" in running.heard


def test_sighup_reloads_and_tells_systemd(tmp_path):
    changed = DaemonSettings(mode="advise", every_s=3600.0)
    running = Running(tmp_path, reload=lambda: changed)

    def steps():
        os.kill(os.getpid(), signal.SIGHUP)
        wait_until(lambda: running.world.modes[-1] == "advise")

    running.lived(steps)
    reloading = next(
        number for number, text in enumerate(running.heard) if text.startswith("RELOADING=1\nMONOTONIC_USEC=")
    )
    assert running.heard[reloading + 1] == "READY=1\nSTATUS=settings read; one cycle every 3600 s"


def test_a_refused_reload_keeps_the_mode_and_systemd_hears_ready_again(tmp_path):
    def bad():
        raise ConfigError("no")

    running = Running(tmp_path, reload=bad)

    def steps():
        os.kill(os.getpid(), signal.SIGHUP)
        wait_until(lambda: len(running.world.modes) > 1)

    running.lived(steps)
    assert running.world.modes[:2] == ["act", "act"]
    assert "READY=1\nSTATUS=settings read; one cycle every 1800 s" in running.heard


def test_a_reload_ends_the_fallback_after_a_bug(tmp_path):
    running = Running(tmp_path, reload=lambda: DaemonSettings(mode="act", every_s=15.0))
    running.world.trouble = KeyError("x")

    def steps():
        wait_until(lambda: any("BUG, observing only until a reload: KeyError" in text for text in running.told()))
        running.world.trouble = None
        os.kill(os.getpid(), signal.SIGHUP)
        wait_until(lambda: len(running.world.modes) > 1)

    running.lived(steps)
    assert running.world.modes[:2] == ["act", "act"]


def test_the_watchdog_is_fed_while_resting(tmp_path):
    running = Running(tmp_path, watchdog_s=0.06)
    running.lived(lambda: wait_until(lambda: running.told().count("WATCHDOG=1") > 5))
    assert running.world.modes == ["act"]


def test_jobs_are_given_back_on_a_stop_only_where_asked(tmp_path):
    budgets = []
    running = Running(tmp_path, release_all=budgets.append, release_budget_s=7.0)
    running.lived(lambda: None)
    assert 0 < budgets[0] <= 7.0


def test_what_the_last_cycle_took_of_a_stop_is_not_there_for_giving_back_but_for_a_least_that_always_is(tmp_path):
    budgets, flags = [], Flags(monotonic=lambda: 100.0)
    for asked_s in (100.0, 75.0, 10.0):
        flags.stop, flags.stop_s = True, asked_s
        World(tmp_path, release_all=budgets.append, release_budget_s=60.0, flags=flags).service.run()
    assert budgets == [60.0, 35.0, 20.0]


def test_a_restart_leaves_the_order_to_the_next_daemon(tmp_path):
    budgets = []
    running = Running(tmp_path, release_all=budgets.append)
    running.world.parts.flags.keep_jobs = True
    running.lived(lambda: None)
    assert budgets == []


def test_a_release_that_slurm_does_not_answer_makes_the_stop_a_failure(tmp_path):
    def silent(budget_s):
        raise SlurmUnavailable("scontrol did not answer")

    running = Running(tmp_path, release_all=silent)
    with pytest.raises(SlurmError, match="scontrol did not answer; slurmsched release-all does the rest"):
        running.lived(lambda: None)
    assert running.world.leadership.released == 1


def test_a_second_daemon_on_the_same_state_is_refused_and_leaves_the_first_alone(tmp_path):
    running = Running(tmp_path)

    def steps():
        with pytest.raises(ConfigError, match="another slurmsched daemon"):
            World(tmp_path).service.run()
        assert ask(tmp_path / "slurmsched.sock", {"ask": "status"})["pid"] == os.getpid()

    running.lived(steps)


def test_an_address_others_could_reach_stops_the_start_and_leaves_nothing(tmp_path):
    with pytest.raises(ConfigError, match="can be reached from elsewhere"):
        World(tmp_path, listen="0.0.0.0:9817").service.run()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(ConfigError, match="Address already in use"):
            World(tmp_path, listen=f"127.0.0.1:{taken.getsockname()[1]}").service.run()
    assert [file.name for file in tmp_path.iterdir()] == ["daemon.lock"]
