from __future__ import annotations

import logging
from itertools import pairwise

import pytest
from daemon_worlds import report

from slurmsched.clock import ManualClock
from slurmsched.daemon.loop import Loop
from slurmsched.daemon.signals import Flags
from slurmsched.errors import ConfigError, SlurmUnavailable


class Beats:
    """A cycle that notes when it began, lasts as long as told, fails as told, and stops the loop after some."""

    def __init__(self, clock, flags, *, most, lasts_s=(), fails=(), then=None):
        self.at_s, self._clock, self._flags, self._most = [], clock, flags, most
        self._lasts_s, self._fails, self._then = dict(lasts_s), dict(fails), then or {}

    def __call__(self, now_s):
        number = len(self.at_s)
        self.at_s.append(now_s)
        self._clock.now_s += self._lasts_s.get(number, 0.0)
        if number in self._then:
            self._then[number]()
        if len(self.at_s) == self._most:
            self._flags.ask_stop()
        if number in self._fails:
            raise self._fails[number]
        return report(number)


def beating(most=4, every_s=15.0, reload=None, **told):
    clock, flags = ManualClock(), Flags()
    then = {number: getattr(flags, wish) for number, wish in told.pop("asks", {}).items()}
    cycle = Beats(clock, flags, most=most, then=then, **told)
    turns = []
    loop = Loop(cycle, clock, every_s, flags=flags, reload=reload, ended=turns.append)
    loop.run()
    return cycle.at_s, turns, loop, clock


def test_cycles_begin_on_a_fixed_beat():
    at_s, turns, _, _ = beating(lasts_s={0: 2.0, 1: 14.0})
    assert at_s == [0, 15, 30, 45]
    assert [turn.took_s for turn in turns] == [2, 14, 0, 0]


def test_an_overrun_skips_beats_instead_of_piling_up(caplog):
    at_s, _, _, _ = beating(lasts_s={0: 40.0})
    assert at_s == [0, 45, 60, 75]
    assert "a cycle took 40.0 s, the beat is 15 s; beats skipped: 2" in caplog.text


def test_a_cycle_as_long_as_the_beat_is_no_overrun(caplog):
    at_s, _, _, _ = beating(lasts_s={0: 15.0})
    assert at_s == [0, 15, 30, 45]
    assert "skipped" not in caplog.text


def test_each_cycle_says_one_sentence(caplog):
    caplog.set_level(logging.INFO, "slurmsched.daemon")
    beating(most=2)
    assert [record.getMessage() for record in caplog.records] == [
        "cycle 0: 2 pending, nothing to do.",
        "cycle 1: 2 pending, nothing to do.",
    ]


def test_a_silent_slurm_costs_one_cycle():
    at_s, turns, loop, _ = beating(fails={1: SlurmUnavailable("squeue did not answer")})
    assert at_s == [0, 15, 30, 45]
    assert [turn.error for turn in turns] == ["", "squeue did not answer", "", ""]
    assert not loop.bug


def test_failures_in_a_row_space_out_up_to_a_bound():
    silent = SlurmUnavailable("no")
    at_s, _, _, _ = beating(most=9, every_s=10.0, fails=dict.fromkeys(range(7), silent))
    assert [later - sooner for sooner, later in pairwise(at_s)] == [10, 20, 40, 80, 80, 80, 80, 10]


def test_a_long_beat_is_never_made_longer_than_itself_or_five_minutes():
    silent = SlurmUnavailable("no")
    for every_s, longest_s in ((60.0, 300), (3600.0, 3600)):
        at_s, _, _, _ = beating(most=8, every_s=every_s, fails=dict.fromkeys(range(8), silent))
        assert at_s[-1] - at_s[-2] == longest_s


def test_a_bug_is_logged_with_its_traceback_and_kept_until_a_reload(caplog):
    at_s, turns, loop, _ = beating(fails={1: ZeroDivisionError("division by zero")})
    assert len(at_s) == 4
    assert loop.bug == "ZeroDivisionError: division by zero"
    assert [turn.bug for turn in turns] == [False, True, False, False]
    assert "Traceback" in caplog.text
    assert "please report it" in caplog.text


def test_a_reload_ends_the_fallback_after_a_bug():
    _, _, loop, _ = beating(fails={0: KeyError("x")}, asks={1: "ask_reload"}, reload=lambda: 15.0)
    assert loop.bug == ""


def test_a_bug_in_what_hears_of_a_cycle_does_not_end_the_daemon():
    def deaf(turn):
        raise KeyError("phase")

    loop = Loop(report, ManualClock(), 15.0, ended=deaf)
    assert loop.once().ok
    assert loop.bug == "KeyError: 'phase'"


def test_a_reload_takes_effect_before_the_next_cycle_and_that_begins_at_once():
    at_s, _, loop, _ = beating(most=5, lasts_s={1: 3.0}, asks={1: "ask_reload"}, reload=lambda: 7.0)
    assert at_s == [0, 15, 18, 25, 32]
    assert loop.every_s == 7.0


def test_a_bad_file_changes_nothing_and_is_told(caplog):
    def bad():
        raise ConfigError("daemon.every_s = -1: at least 1")

    at_s, _, loop, _ = beating(asks={0: "ask_reload"}, reload=bad)
    assert at_s == [0, 0, 15, 30]
    assert loop.every_s == 15.0
    assert "reload refused, the old settings stay: daemon.every_s = -1: at least 1" in caplog.text


def test_a_bad_file_does_not_end_the_fallback_after_a_bug():
    def bad():
        raise ConfigError("no")

    _, _, loop, _ = beating(fails={0: KeyError("x")}, asks={1: "ask_reload"}, reload=bad)
    assert loop.bug


def test_a_bug_in_the_reload_does_not_end_the_daemon():
    at_s, _, loop, _ = beating(asks={0: "ask_reload"}, reload=lambda: 1 / 0)
    assert len(at_s) == 4
    assert loop.bug.startswith("ZeroDivisionError")


def test_a_stop_asked_during_a_cycle_lets_it_finish_and_starts_no_other():
    at_s, turns, _, clock = beating(most=1, lasts_s={0: 2.0})
    assert at_s == [0]
    assert turns[0].ok
    assert clock.waits_s == []


def test_a_stop_before_the_first_cycle_starts_none():
    flags = Flags()
    flags.ask_stop()
    turns = []
    Loop(report, ManualClock(), 15.0, flags=flags, ended=turns.append).run()
    assert turns == []


class Interrupted(ManualClock):
    """A clock on which a request comes in the middle of the first rest."""

    def __init__(self, flags):
        super().__init__()
        self._flags = flags

    def wait(self, seconds, wake):
        if self.now_s < 5.0:
            self.now_s = 5.0
            self._flags.ask_stop()
            return True
        return super().wait(seconds, wake)


def test_a_stop_wakes_a_sleeping_loop():
    flags = Flags()
    clock = Interrupted(flags)
    Loop(report, clock, 3600.0, flags=flags).run()
    assert clock.now_s == 5.0


def test_a_wake_without_a_request_does_not_begin_a_cycle_early():
    flags = Flags()
    flags.wake.set()
    clock = ManualClock()
    cycle = Beats(clock, flags, most=2)
    Loop(cycle, clock, 15.0, flags=flags, alive_every_s=4.0).run()
    assert cycle.at_s == [0, 15]


def test_the_watchdog_is_fed_through_a_long_rest_but_not_during_a_cycle():
    clock, flags, fed = ManualClock(), Flags(), []
    cycle = Beats(clock, flags, most=2, lasts_s={0: 9.0})
    Loop(cycle, clock, 30.0, flags=flags, alive=lambda: fed.append(clock.now_s), alive_every_s=10.0).run()
    assert fed == [9, 19, 29, 30, 30]


@pytest.mark.parametrize("every_s", [15.0, *(pytest.param(other, marks=pytest.mark.soak) for other in (1.0, 3600.0))])
def test_a_thousand_beats_do_not_drift(every_s):
    at_s, _, _, _ = beating(most=1000, every_s=every_s, lasts_s=dict.fromkeys(range(1000), every_s / 3))
    assert at_s[-1] == pytest.approx(999 * every_s)
