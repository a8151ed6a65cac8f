"""``slurmsched status`` of a daemon that has just started."""

from __future__ import annotations

import pytest
from cli.fake_site import FakeSite, run

from slurmsched.cli.daemon.status import FIRST_CYCLE_S
from slurmsched.daemon.api.query_handlers import QueryHandlers
from slurmsched.daemon.api.query_server import QueryServer
from slurmsched.daemon.api.questions.contract import Sources

STARTED = {
    "version": "0.2",
    "pid": 7,
    "mode": "observe",
    "configured_mode": "observe",
    "why_mode": "",
    "problem": "no cycle has succeeded yet: no cycle has ended yet",
    "database_available": True,
    "database_trouble": "",
    "last_error": "",
    "every_s": 15.0,
}
WELL = STARTED | {
    "problem": "",
    "cycle": {"sentence": "3 jobs", "phases_s": {}, "fallbacks": [], "promises": {}, "number": 1, "now_s": 0.0},
}
FAILED = STARTED | {"last_error": "squeue did not answer"}


class Starting:
    """A daemon of which each question finds the next of these states, and then the last one again."""

    def __init__(self, *states: dict[str, object]) -> None:
        self.states = list(states)

    def status(self) -> dict[str, object]:
        return dict(self.states.pop(0) if len(self.states) > 1 else self.states[0])


@pytest.fixture
def ask(tmp_path):
    """Ask a site whose daemon has these states; return the result and the seconds that it waited."""
    servers = []

    def status(*states):
        site = FakeSite(tmp_path)
        nothing = (lambda *_: None for _ in range(4))
        servers.append(QueryServer(tmp_path, QueryHandlers(Sources(Starting(*states).status, *nothing), trusted=())))
        servers[-1].start()
        result = run(site, "status")
        site.close()
        return result, sum(site.clock.waits_s)

    yield status
    for server in servers:
        server.close()


def test_status_waits_for_the_end_of_the_first_cycle(ask):
    result, waited_s = ask(STARTED, STARTED, WELL)
    assert result.exit_code == 0
    assert "health: fine" in result.output
    assert 0 < waited_s < FIRST_CYCLE_S


def test_a_first_cycle_that_takes_long_is_said_in_the_end(ask):
    result, waited_s = ask(STARTED)
    assert result.exit_code == 1
    assert "no cycle has ended yet" in result.output
    assert waited_s == pytest.approx(FIRST_CYCLE_S)


def test_nothing_is_waited_for_after_a_first_cycle_that_failed(ask):
    result, waited_s = ask(FAILED)
    assert result.exit_code == 1
    assert "last error: squeue did not answer" in result.output
    assert waited_s == 0


def test_status_says_which_part_of_the_decision_took_the_time_and_which_powers_wait(ask):
    cycle = WELL["cycle"] | {"decided_s": {"order": 0.02, "steer": 0.4, "referee": 0.0004}, "waiting": ["resize"]}
    result, _ = ask(WELL | {"cycle": cycle})
    assert "deciding took, of the processor: steer 0.400 s, order 0.020 s\n" in result.output
    assert "decided without resize: what took long waits its turn" in result.output
