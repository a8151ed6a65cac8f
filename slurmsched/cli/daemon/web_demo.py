"""The daemon of ``slurmsched web --demo``: all of it but Slurm, beside a modelled site in virtual time."""

from __future__ import annotations

import os
import pwd
import threading
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ...clock import ManualClock, Timer
from ...daemon.api.query_arguments import AnswerRefused
from ...errors import SlurmschedError
from ..app import App, Called

if TYPE_CHECKING:
    from ...demo.site import DemoSite
    from ...slurm.port import Slurm
    from .build import Daemon

BEFORE_S, LASTS_DAYS = 3.44 * 86_400.0, 14.0
"""Virtual time before the first page, and the days for which jobs are drawn."""
STEP_S, PREDICT_S = 300.0, 3600.0  #: between cycles, and predictions, before the first page
EVERY_S, SPEED = 2.0, 30.0  #: real seconds between cycles then, and virtual seconds in a real one
_SETTINGS = """\
[daemon]
mode = "act"
state_dir = "{home}/state"
run_dir = "{home}/run"

[power]
order = true
hold = true

[policy]
ordering = "qssf"

[order]
scope = "queue"

[deadline]
enabled = true

[metrics]
listen = ""
"""

Ask = Callable[[Mapping[str, Any], str], Mapping[str, Any]]


class DemoApp(App):
    """The parts that a daemon is built from, with a modelled Slurm and a clock that is set."""

    def __init__(self, home: Path, site: DemoSite) -> None:
        config = home / "slurmsched.toml"
        config.write_text(_SETTINGS.format(home=home), "utf-8")
        for name in ("state", "run"):
            (home / name).mkdir()
        self.virtual = ManualClock(site.now_s)
        super().__init__(str(config), clock=self.virtual, environ={})
        self.site = site

    def cluster(self, called: Called | None = None, apart: Callable[[], Set[str]] = frozenset) -> Slurm:
        """Return the port to the modelled Slurm."""
        return self.site


class DemoDaemon:
    """A daemon beside the modelled site: its cycles come when virtual time is moved on."""

    def __init__(self, app: DemoApp, daemon: Daemon) -> None:
        self._app, self._daemon, self._site = app, daemon, app.site
        self._delivered_s, self._predictions_wait = -float("inf"), Timer(app.virtual.monotonic)

    def ask(self, request: Mapping[str, Any], user: str) -> Mapping[str, Any]:
        """Answer a question of a local user, as the daemon's socket does."""
        try:
            return self._daemon.service.questions.answer(request, pwd.getpwnam(user).pw_uid)
        except AnswerRefused:
            raise
        except SlurmschedError as error:
            raise AnswerRefused(str(error)) from error

    @property
    def now_s(self) -> float:
        """The virtual time."""
        return self._site.now_s

    def play(self, until_s: float, told: Callable[[float], None] = lambda now_s: None) -> None:
        """Move virtual time on to *until_s* in steps, with a cycle after each; *told* hears the time."""
        while self._site.now_s < until_s:
            self.step(min(self._site.now_s + STEP_S, until_s))
            told(self._site.now_s)

    def step(self, now_s: float) -> None:
        """Move virtual time on to *now_s*, and run a cycle then."""
        from ...demo.site import busy_profiles, idle_profiles

        parts, site = self._daemon.parts, self._site
        site.advance(now_s)
        self._app.virtual.now_s = now_s
        beat = self._daemon.service.once()
        if beat.report is None:
            raise SlurmschedError(f"a cycle of the demo failed: {beat.error}")
        report = beat.report
        store, name = parts.store, parts.cluster_name
        idle = idle_profiles(report.view.running, now_s)
        measured = busy_profiles([*site.first_profiles(self._delivered_s), *site.profiles(report.ended)])
        store.add_profiles(name, [*measured, *idle])
        self._delivered_s = now_s
        for profile in idle:
            parts.idle.book.take(profile)
        self._tell()

    def _tell(self) -> None:
        parts = self._daemon.parts
        if parts.predictions is not None and self._predictions_wait.due:
            self._predictions_wait.put_off(PREDICT_S)
            parts.predictions.once()

    def follow(self) -> None:
        """Let the parts beside the cycles work, as in a daemon that runs."""
        parts = self._daemon.parts
        for follower in (parts.counts, parts.idle.service, parts.suggestions, parts.predictions, parts.code):
            if follower is not None:
                follower.start()

    def close(self) -> None:
        """Stop all of it."""
        parts = self._daemon.parts
        for follower in (parts.counts, parts.idle.service, parts.suggestions, parts.predictions, parts.code):
            if follower is not None:
                follower.close()
        self._daemon.close()


@contextmanager
def demo_daemon(told: Callable[[float], None] = lambda share: None) -> Iterator[DemoDaemon]:
    """Bring up the daemon beside the modelled site, some days after its first moment; *told* hears the share done."""
    from ...demo.site import FIRST_S, demo_site
    from .build import build

    with TemporaryDirectory(prefix="slurmsched-web-demo-") as home:
        app = DemoApp(Path(home), demo_site(LASTS_DAYS, this_user()))
        made = DemoDaemon(app, build(app))
        try:
            made.play(FIRST_S + BEFORE_S, lambda now_s: told((now_s - FIRST_S) / BEFORE_S))
            made.follow()
            yield made
        finally:
            made.close()


def keep_time(daemon: DemoDaemon, stop: threading.Event) -> None:
    """Let virtual time pass, faster than real time, until *stop* is set."""
    while not stop.wait(EVERY_S):
        daemon.step(daemon.now_s + EVERY_S * SPEED)


def this_user() -> str:
    """Return the name of the user of this process, whom the pages are for."""
    return pwd.getpwuid(os.geteuid()).pw_name
