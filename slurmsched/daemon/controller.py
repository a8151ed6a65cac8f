"""The daemon's cycles and their surroundings: history, an admin's choice, load, retention, reload, stop."""

from __future__ import annotations

import logging
from dataclasses import replace

from ..config import DaemonSettings, Settings
from ..cycle import CycleReport, run_cycle
from ..db.tracking.story import StoryEvent
from ..decide.phrasing import spell
from ..decide.policy import Policy
from ..decide.present_load import busy_share, follows_load, under_load
from ..errors import SlurmError, SlurmUnavailable
from ..explain.impact import advice, in_words
from ..models.arrival_counter import ArrivalCounter
from ..models.runtime.gpu_use_history import UseHistory
from ..powers import share
from .parts import Parts
from .release import give_back, give_nodes_back, lends
from .retention import Retention
from .validation import demand_valid, unknown_partitions

logger = logging.getLogger(__name__)

CLOCK_MOST_S = 60.0  #: by which slurmctld's clock and ours may differ; munge takes nothing that is 300 s old


class DaemonController:
    """The daemon's work around each cycle, and its reload: either all new settings apply or none."""

    def __init__(self, parts: Parts) -> None:
        self._parts, self._context, self._active_policy = parts, parts.context, parts.active_policy
        self._profiling, self._facts = parts.profiling, parts.facts
        self._retention = Retention(parts.store, parts.clock)
        self._unknown_partitions: list[str] = []
        self._load_unknown = False
        self._busy_share = 1.0
        self.policy: Policy = parts.active_policy.policy  #: in force, before it follows the present load
        self._taught = False
        if restraint := self.restraint():
            logger.warning("nothing is written: %s", restraint)

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self._parts.settings

    @property
    def arrivals(self) -> ArrivalCounter:
        """The submissions until now."""
        return self._profiling.arrivals

    def restraint(self) -> str:
        """Return why this Slurm may only be observed; empty where writes are allowed."""
        return self._facts.restraint(self.settings.slurm.allow_untested)

    def cycle(self, now_s: float, mode: str) -> CycleReport:
        """Run one cycle in *mode*, with the work around it."""
        self._adapt_to_load()
        self._prepare(now_s, acting=mode == "act")
        report = self._run_cycle(now_s, mode)
        self._profiling.after(report)
        self._tell_passed(report)
        self._parts.knowledge.speeds.learn(report.ended)
        policy = self._context.policy
        if self._parts.actor.watch(report.view, replace(policy, shadow=None) if report.shadow_trouble else policy):
            self._active_policy.refresh()
        self._busy_share = busy_share(report.view.nodes, self.policy.rules)
        if mode == "advise":
            logger.info("advice: %s", in_words(advice(report.view, report.plan)))
        self._retention.apply(self.settings.database, now_s)
        self._facts.refresh_if_old()
        return report

    def dry_run(self, now_s: float) -> CycleReport:
        """Run one cycle that observes and writes nothing anywhere."""
        self._prepare(now_s)
        return self._run_cycle(now_s, "observe")

    def reload(self) -> DaemonSettings:
        """Apply the settings as they are on disk now; on any error everything stays as it was."""
        settings = self._parts.read_settings()
        demand_valid(settings)
        self._active_policy.take(settings)
        for name in fixed_changes(self.settings, settings):
            logger.warning("%s takes effect only after a restart of the daemon", name)
        self._facts.refresh()
        self._context.policy = self._active_policy.policy
        self._context.learns = settings.forecast.learn_online
        self._parts.active_model.wanted = settings.models.serve
        self._parts.knowledge.reports.every_s = settings.profile.report_s
        budget = self._context.writer.budget
        self._context.writer.budget = replace(
            budget, per_s=settings.slurm.writes_per_s, burst=settings.slurm.writes_burst
        )
        # Directories stay as they were at the start: they hold the lock and the sockets.
        before = self.settings.daemon
        daemon = replace(settings.daemon, state_dir=before.state_dir, run_dir=before.run_dir)
        self._parts.settings = replace(settings, daemon=daemon)
        return daemon

    def give_back(self, budget_s: float) -> None:
        """Give jobs and nodes back on an ordered stop, if they carry our marks and no other daemon has taken over.

        SlurmError or MemoryUnavailable where some jobs keep our marks, or where the leader is unknown.
        """
        intents, name, store = self._context.memory.intents(), self._facts.latest.cluster, self._parts.store
        if self.settings.daemon.mode != "act" and not intents and not lends(name, store):
            return
        leadership = self._parts.leadership
        if not (leadership.held() or leadership.acquire()):
            return
        sharing = self._context.policy.rules.sharing or share.terms(self.settings)
        report = give_back(
            *(self._context.cluster, intents, self._parts.clock, budget_s, sharing),
            keep=lambda news: store.save_intents(name, news),
        )
        logger.info("gave back: %s; %d writes left", report.sentence, report.left)
        if trouble := give_nodes_back(self._context.cluster, name, store):
            raise SlurmError(f"partitions keep nodes of each other: {trouble}")
        if report.refused or report.left:
            raise SlurmError(f"{report.left} writes were left, {len(report.refused)} refused {report.refused[:1]}")

    def _tell_passed(self, report: CycleReport) -> None:
        """Write into the story of each job that started how many had gone before it because of our order."""
        ordered = report.mode == "act" and "order" in self._context.policy.rules.powers
        began = self._parts.passed.observe(report.view, ordered=ordered)
        self._context.memory.tell(
            StoryEvent(report.now_s, "passed", {"jobs": one.jobs}, one.job_id, one.first_submit_s) for one in began
        )

    def _prepare(self, now_s: float, *, acting: bool = False) -> None:
        self._learn_history(now_s)
        self._adopt_choice(now_s, acting=acting)

    def _learn_history(self, now_s: float) -> None:
        """Train the model on the database's history as soon as it answers, and again when the active model changes."""
        serving = self._parts.active_model
        if self._taught and not serving.stale():
            return
        history = self._context.memory.history(now_s - self.settings.database.keep_outcomes_days * 86_400)
        if history is not None:
            measured = self._context.memory.measured()
            model = serving.model(history, UseHistory.of((kind, use) for _, kind, use in measured))
            self._context.model = model
            self._taught = True
            self._profiling.learn(history)
            self._parts.knowledge.speeds.learn(history)
            logger.info("the forecast knows %d runs (%s)", len(history), serving.described(model))

    def _adopt_choice(self, now_s: float, *, acting: bool) -> None:
        """Apply the policy chosen last, and a composition that is better now, from this cycle on."""
        self._active_policy.apply(self._context.memory.choice())
        if self._parts.actor.take_change():
            self._active_policy.refresh()
        step = self._parts.switcher.step(now_s, acting=acting)
        policy = self._parts.knowledge.usage.with_history(replace(self._active_policy.policy, synthesis=step))
        self.policy = self._parts.knowledge.sharing.with_sharing(policy, now_s)
        outlooks = self._profiling.outlooks(now_s) if follows_load(self.policy.rules) else {}
        self._parts.trial.read()
        self._context.policy = self._parts.trial.in_force(under_load(self.policy, outlooks, self._busy_share), now_s)

    def _adapt_to_load(self) -> None:
        """Reduce the write rate while slurmctld is slow; without its figures the rate stays.

        SlurmUnavailable where slurmctld's clock and ours differ by more than CLOCK_MOST_S: each time that is compared
        with Slurm's, and each begin time that is written, would be wrong by as much.
        """
        asked_s = self._parts.clock.now()
        try:
            load = self._context.cluster.load()
        except SlurmError as error:
            if not self._load_unknown:
                logger.warning("the load of slurmctld is not known, and changes of it are not followed: %s", error)
            self._load_unknown = True
            return
        self._load_unknown = False
        if trouble := clocks_differ(asked_s, load.now_s, self._parts.clock.now()):
            raise SlurmUnavailable(trouble)
        self._context.writer.budget.apply_load(load, self._parts.clock.monotonic())
        self._parts.counts.observe_load(load)

    def _run_cycle(self, now_s: float, mode: str) -> CycleReport:
        report = run_cycle(self._context, self._context.memory.next_number(now_s), now_s, mode)
        self._warn_of_partitions(tuple(report.view.partitions.name))
        return report

    def _warn_of_partitions(self, partitions: tuple[str, ...]) -> None:
        """Log partitions that the settings name and the cluster lacks; once until the list changes."""
        unknown = unknown_partitions(self.settings, partitions)
        for sentence in unknown:
            if sentence not in self._unknown_partitions:
                logger.warning(sentence)
        self._unknown_partitions = unknown


def clocks_differ(asked_s: float, slurms_s: float, answered_s: float) -> str:
    """Return by how much slurmctld's clock was wrong between a question and its answer; empty where it was right."""
    ahead_s = max(asked_s - slurms_s, slurms_s - answered_s)
    if not ahead_s > CLOCK_MOST_S:
        return ""
    word = "ahead of" if asked_s > slurms_s else "behind"
    return f"the clock of this host is {spell(ahead_s)} {word} slurmctld's: set both by NTP"


def fixed_changes(before: Settings, after: Settings) -> list[str]:
    """Return the names of changed settings that a running daemon cannot take."""
    names = (
        *("daemon.state_dir", "daemon.run_dir", "slurm.conf", "slurm.bin_dir", "slurm.backend"),
        *("database.url", "metrics.listen", "profile.listen", "remote.listen", "models.directory"),
        *("predict.enabled", "predict.every_s", "predict.least", "predict.most"),
    )
    places = [name.split(".") for name in names]
    return [
        f"{section}.{key}"
        for section, key in places
        if getattr(getattr(before, section), key) != getattr(getattr(after, section), key)
    ]
