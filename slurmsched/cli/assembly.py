"""The daemon put together: the one place where settings become parts."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ..clock import Timer, local_zone
from ..cluster.faults import Instability
from ..cluster.known import outcomes_of
from ..cluster.plan import Plan
from ..cluster.sbatch import probe
from ..cluster.sbatch_options import not_counted, read_options
from ..cluster.state import ClusterState, View
from ..config import DaemonSettings, Settings
from ..cycle import CycleReport, World, run_cycle
from ..daemon.collector import Collector, Receiver, parse_listen
from ..daemon.figures import Figures
from ..daemon.flow import Flow
from ..daemon.foretelling import Foretelling
from ..daemon.inspector import Inspector
from ..daemon.lender import Lender
from ..daemon.metrics import Metrics
from ..daemon.notify import Notifier
from ..daemon.questions import Sources
from ..daemon.service import Parts, Service
from ..daemon.sharer import Sharer
from ..daemon.whereabouts import Whereabouts
from ..db.leader import Leadership, leadership
from ..db.memory import Memory
from ..db.store import Store, Unchanged
from ..decide import explain
from ..decide.advice import advice, in_words
from ..decide.chart import chart
from ..decide.claims import claims
from ..decide.deadlines import DeadlineAnswer, check, deadline, deadlines
from ..decide.eta import Eta
from ..decide.factors import with_factors
from ..decide.paired import with_eviction, with_score, with_sharing
from ..decide.policy import Policy
from ..decide.profiled import with_profiling
from ..decide.slurm_place import order_is_off
from ..errors import MemoryUnavailable, SlurmError, SlurmUnavailable
from ..models.runtime import RuntimeModel
from ..models.served import Served
from ..models.serving import Serving, drift_of, overrunners_of
from ..models.use import UseHistory
from ..slurm.addresses import NodeAddresses
from ..slurm.budget import Budget
from ..slurm.port import Facts, Slurm
from ..slurm.versions import TESTED, Release, Support
from ..slurm.writer import Writer
from .app import App, make_tables
from .chosen import Chosen
from .foretelling import Forward, Kept, foretelling, foretold, with_new_job
from .release_all import give_back
from .rules import DAY_S, policy_of, sharing_rules
from .tryout import try_out
from .validation import demand_valid, unknown_partitions

logger = logging.getLogger(__name__)

PRUNE_EVERY_S = 3600.0
PATIENCE_S = 60.0  #: how long a starting daemon waits for slurmctld before it gives up and is started again
RETRY_S = 2.0
FACTS_EVERY_S = 60.0  #: how old PrivateData, the operators and the rest of the configuration may be


@dataclass
class _Model:
    """Whether the model has seen the history yet."""

    taught: bool = False


class Daemon:
    """What the cycles of one daemon share, and how a reload replaces it: all or nothing.

    Making one raises where the settings, the tables or slurmctld do not let it; *patience_s* is how long a slurmctld
    that does not answer is waited for. With *dry* only ``rehearse`` is of use.
    """

    def __init__(self, app: App, *, patience_s: float = 0.0, dry: bool = False) -> None:
        self._app, self._settings = app, app.settings()
        demand_valid(self._settings)
        self._unknown_partitions: list[str] = []
        self._model, self._pruning = _Model(), Timer(app.clock.monotonic)
        self._whereabouts = Whereabouts()
        self._serving = Serving(app.shelf(), self._settings.models.serve)
        self._chosen = Chosen(policy_of, self._settings)
        metrics = Metrics(
            lambda: self._chosen.policy.ordering.name,
            lambda: self._world.model.trained_until_s,
            lambda: drift_of(self._world.model),
            lambda: sum(one.raised > 0 for one in overrunners_of(self._world.model)),
        )
        cluster = app.cluster(lambda command, result, took_s, _: metrics.slurm_call(command, result, took_s))
        self._facts = _facts_of(cluster, app, patience_s)
        self._facts_s = app.clock.monotonic()
        self._store = app.open_store(Unchanged) if dry else _opened(app)
        self.leadership: Leadership = leadership(self._store, self._facts.cluster)
        wait = Timer(app.clock.monotonic)
        lender = Lender(cluster, self._facts.cluster, self._store, self.leadership.held, wait)
        self._flow = Flow(app.shelf(), lender)
        self._sharer = Sharer(app.shelf(), lambda now_s: self._world.memory.mismatches(now_s), self._flow.outlooks)
        self._world = self._build(cluster)
        self._foretelling = None if dry else self._foretelling_of(metrics)
        self.service = Service(self._parts(metrics))
        if restraint := self._restraint():
            logger.warning("nothing is written: %s", restraint)

    def rehearse(self, now_s: float) -> CycleReport:
        """One cycle that observes and writes nothing anywhere."""
        self._learn_history(now_s)
        self._heed_choice(now_s)
        return run_cycle(self._world, self._world.memory.next_number(now_s), now_s, "observe")

    @property
    def policy(self) -> Policy:
        """What orders jobs now, an admin's choice included."""
        return self._world.policy

    def close(self) -> None:
        """Close the database."""
        self._store.close()

    def _build(self, cluster: Slurm) -> World:
        slurm = self._settings.slurm
        return World(
            cluster=cluster,
            memory=Memory(self._store, cluster=self._facts.cluster, monotonic=self._app.clock.monotonic),
            model=RuntimeModel.fit(outcomes_of(())),
            policy=self._chosen.policy,
            writer=Writer(cluster, Budget(slurm.writes_per_s, slurm.writes_burst), self.leadership.held),
            clock=self._app.clock,
            learns=self._settings.forecast.learn_online,
            site=self._facts.config,
            entering=lambda phase: self.service.progressed(),
            observed=self._saw,
            scored=self._sharer.scored,
        )

    def _saw(self, state: ClusterState) -> None:
        self._whereabouts.saw(state.running)
        self._whereabouts.saw(state.ended)
        self._whereabouts.looked(self._app.clock.now())
        self._warn_of_partitions(tuple(state.partitions.name))

    def _warn_of_partitions(self, partitions: tuple[str, ...]) -> None:
        """Log what the settings name and the cluster has not, once until that changes."""
        unknown = unknown_partitions(self._settings, partitions)
        for sentence in unknown:
            if sentence not in self._unknown_partitions:
                logger.warning(sentence)
        self._unknown_partitions = unknown

    def _parts(self, metrics: Metrics) -> Parts:
        return Parts(
            cycle=self.cycle,
            clock=self._app.clock,
            settings=self._settings.daemon,
            memory=self._world.memory,
            leadership=self.leadership,
            sources=self._sources,
            listen=self._settings.metrics.listen,
            metrics=metrics,
            notifier=Notifier.from_environment(self._app.environ),
            reload=self.reload,
            release_all=self.give_back,
            restraint=self._restraint,
            collector=self._collector_of(metrics),
            foretelling=self._foretelling,
            inspector=Inspector(self._store, self._app.clock),
        )

    def _collector_of(self, metrics: Metrics) -> Callable[[], Collector] | None:
        """How to open the door for what nodes measured; ConfigError where ``profile.listen`` is no address."""
        address = parse_listen(self._settings.profile.listen)
        if address is None:
            return None
        receiver = Receiver(
            addresses=NodeAddresses(self._app.console().ask, self._app.clock.monotonic),
            ran=self._whereabouts.ran,
            gone=self._whereabouts.gone,
            keep=lambda profile: self._store.add_profiles(self._facts.cluster, [profile]),
            keep_fault=lambda fault: self._store.add_faults(self._facts.cluster, [fault]),
            keep_unstable=self._keep_unstable,
            counted=metrics.profile_record,
        )
        socket = re.search(r"\bsocket=([^,]+)", self._facts.config.get("AuthInfo", ""))  # where munged is not at home
        unmunge = ["unmunge", *([f"--socket={socket[1]}"] if socket else [])]
        return lambda: Collector(address, receiver, self._app.clock, unmunge=unmunge)

    def _keep_unstable(self, seen: Instability) -> None:
        self._store.add_instabilities(self._facts.cluster, [seen])
        self._world.memory.expect_mismatches()

    def _restraint(self) -> str:
        """Why this Slurm is only observed; empty where it is not."""
        release = Release(self._facts.version)
        if release.support is not Support.NEWER or self._settings.slurm.allow_untested:
            return ""
        return f"Slurm {release} is {release.support.value}, {Release(TESTED[-1])}; slurm.allow_untested lifts this"

    def _sources(self, status: Callable[[], dict[str, Any]]) -> Sources:
        return Sources(
            status=lambda: status() | {"model": self._serving.said(self._world.model), "policy": self._chosen.said()},
            why=self._why,
            explain=self._explain,
            queue=explain.queue,
            advice=advice,
            overrunners=lambda: overrunners_of(self._world.model),
            deadline=deadline,
            deadlines=deadlines,
            claims=lambda view, plan: claims(view, plan, self._world.policy.rules.deadlines),
            chart=lambda view, plan, job_id: chart(view, plan, job_id, self._world.policy.rules),
            check=self._check,
            foretold=lambda: foretold(self._settings.predict, self._foretelling),
            eta_check=self._eta_check,
            figures=Figures(
                lambda: self._store, lambda: self._facts.cluster, self._app.shelf(), self._app.clock
            ).answer,
            story=lambda job_id, since_s: self._store.story(self._facts.cluster, job_id, since_s),
            order_off=lambda mode: order_is_off(mode, status()["why_mode"], self._world.policy.rules.powers),
            private=lambda: "jobs" in self._facts.config.get("PrivateData", "").split(","),
            operator=lambda user: user in self._facts.operators,
        )

    def _check(self, view: View, plan: Plan, options: str, user: str) -> DeadlineAnswer:
        """What a job of *user* with these *options* of sbatch would be told now."""
        read = read_options(options)
        job = probe(read, user, view.now_s, local_zone(), tuple(view.partitions.name))
        world = self._world
        answer = check(view, plan, job, world.model.forecast(job, view.now_s), world.policy.rules)
        left_out = not_counted(read)
        return replace(answer, sentences=(*answer.sentences, *([left_out] if left_out else [])))

    def _foretelling_of(self, metrics: Metrics) -> Foretelling | None:
        """What predicts, where it is wanted and can be."""
        served = Forward(lambda: self._world.policy, lambda: self._facts.config)
        kept = Kept(self._store, self._facts.cluster)
        return foretelling(self._settings.predict, served, kept, self._app.clock, metrics)

    def _eta_check(self, view: View, plan: Plan, options: str, user: str) -> Eta:
        """When a job of *user* with these *options* of sbatch would start and finish."""
        made, world = self._foretelling, self._world
        return try_out(
            view, world.model, lambda job, said: with_new_job(made, view, job, said, world.policy), options, user
        )

    def _why(self, view: View, plan: Plan, job_id: int) -> explain.Why:
        """Why the job waits, and what the profiling partition and sharing have to do with it."""
        rules = self._world.policy.rules
        told = with_profiling(explain.why(view, plan, job_id), view, rules.profiling)
        return with_sharing(told, view, plan, rules)

    def _explain(self, view: View, plan: Plan, job_id: int) -> explain.Explanation:
        """What the job's place is made of, and its forecast where that can be taken apart."""
        told = with_eviction(explain.explain(view, plan, job_id), view, self._world.policy.rules)
        waits, model = view.pending.row_of(job_id), self._world.model
        jobs, row = (view.running, view.running.row_of(job_id)) if waits is None else (view.pending, waits)
        if row is None:
            return told
        if jobs.measured[row]:
            told = with_score(told, self._sharer.why(jobs, row))
        if not isinstance(model, Served):
            return told
        return with_factors(told, model.reasons(jobs, row), runs=waits is None)

    def cycle(self, now_s: float, mode: str) -> CycleReport:
        """One cycle in *mode*, with what belongs around it: history for the model, heed of the load, retention."""
        self._learn_history(now_s)
        self._heed_choice(now_s)
        if mode == "act":
            self._heed_load()
        report = run_cycle(self._world, self._world.memory.next_number(now_s), now_s, mode)
        self._flow.after(report, self._world.policy)
        self._sharer.looked(report.view, self._world.policy.rules.sharing)
        if mode == "advise":
            logger.info("advice: %s", in_words(advice(report.view, report.plan)))
        self._forget(now_s)
        if self._app.clock.monotonic() >= self._facts_s + FACTS_EVERY_S:
            self._read_facts()
        return report

    def _read_facts(self) -> None:
        """Ask again what the cluster is; without an answer what was known holds."""
        self._facts_s = self._app.clock.monotonic()
        try:
            self._facts = self._world.cluster.facts()
        except SlurmError as error:
            logger.warning("the cluster's configuration was not read again: %s", error)
        self._world.site = self._facts.config

    def _heed_choice(self, now_s: float) -> None:
        """Order by what an admin chose last, from this cycle on."""
        self._chosen.heed(self._world.memory.choice())
        policy = self._flow.under_pressure(self._chosen.policy, now_s)
        self._world.policy = self._sharer.adapted(policy, now_s)

    def _heed_load(self) -> None:
        """Slow our writes down while slurmctld is slow; without its figures they keep their pace."""
        try:
            self._world.writer.budget.heed(self._world.cluster.load())
        except SlurmError as error:
            logger.warning("the load of slurmctld is not known: %s", error)

    def _learn_history(self, now_s: float) -> None:
        """Teach the model what the database holds, once it answers, and again when another model is to serve."""
        if self._model.taught and not self._serving.stale():
            return
        history = self._world.memory.history(now_s - self._settings.database.keep_outcomes_days * DAY_S)
        if history is not None:
            measured = self._world.memory.measured()
            model = self._serving.model(history, UseHistory.of((kind, use) for _, kind, use in measured))
            self._world.model = model
            self._model.taught = True
            self._flow.learn(history)
            logger.info("the forecast knows %d runs (%s)", len(history), self._serving.said(model))

    def _forget(self, now_s: float) -> None:
        """Clean the database now and then, a bounded amount after a cycle."""
        database = self._settings.database
        if not self._pruning.due:
            return
        try:
            gone = self._store.prune(now_s, database.keep_decisions_days * DAY_S, database.keep_outcomes_days * DAY_S)
        except MemoryUnavailable as error:
            logger.warning("old records were not removed: %s", error)
            return
        if not gone.more:
            self._pruning.put_off(PRUNE_EVERY_S)

    def reload(self) -> DaemonSettings:
        """Take the settings as they are on disk now; on any error everything stays as it was."""
        settings = self._app.reload()
        demand_valid(settings)
        self._chosen.take(settings)
        for name in _fixed_changes(self._settings, settings):
            logger.warning("%s takes effect only when the daemon is started again", name)
        self._read_facts()
        self._world.policy = self._chosen.policy
        self._world.learns = settings.forecast.learn_online
        self._serving.wanted = settings.models.serve
        budget = self._world.writer.budget
        self._world.writer.budget = replace(
            budget, per_s=settings.slurm.writes_per_s, burst=settings.slurm.writes_burst
        )
        # Where things lie stays as it was at the start: the lock and the sockets are there.
        kept = replace(
            settings.daemon, state_dir=self._settings.daemon.state_dir, run_dir=self._settings.daemon.run_dir
        )
        self._settings = replace(settings, daemon=kept)
        return kept

    def give_back(self, budget_s: float) -> None:
        """On an ordered stop, if the jobs carry our marks and no other daemon has taken over.

        SlurmError or MemoryUnavailable where some jobs keep our marks, or where it cannot be known who leads.
        """
        intents = self._world.memory.intents()
        if self._settings.daemon.mode != "act" and not intents and not self._flow.lends():
            return
        if not (self.leadership.held() or self.leadership.acquire()):
            return
        sharing = self._world.policy.rules.sharing or sharing_rules(self._settings)
        report = give_back(self._world.cluster, intents, self._app.clock, budget_s, sharing)
        logger.info("gave back: %s; %d writes left", report.sentence, report.left)
        if trouble := self._flow.give_back():
            raise SlurmError(f"partitions keep nodes of each other: {trouble}")
        if report.refused or report.left:
            raise SlurmError(f"{report.left} writes were left, {len(report.refused)} refused {report.refused[:1]}")


def _facts_of(cluster: Slurm, app: App, patience_s: float) -> Facts:
    """The facts of the cluster, waiting a while for a slurmctld that is starting too."""
    from threading import Event

    until_s = app.clock.monotonic() + patience_s
    while True:
        try:
            return cluster.facts()
        except SlurmUnavailable as error:
            if app.clock.monotonic() >= until_s:
                raise
            logger.warning("waiting for slurmctld: %s", error)
            app.clock.wait(RETRY_S, Event())


def _opened(app: App) -> Store:
    """The database with tables that fit, made on the first start; one that is away is used when it comes back."""
    store = app.open_store()
    try:
        make_tables(store)
        store.check()
    except MemoryUnavailable as error:
        if store.path is not None and not os.path.exists(store.path):
            raise
        logger.warning("starting without the database: %s", error)
    return store


def _fixed_changes(before: Settings, after: Settings) -> list[str]:
    """Settings that a running daemon cannot change."""
    names = (
        *("daemon.state_dir", "daemon.run_dir", "slurm.conf", "slurm.bin_dir", "slurm.backend"),
        *("database.url", "metrics.listen", "profile.listen", "models.directory"),
        *("predict.enabled", "predict.every_s", "predict.least", "predict.most"),
    )
    places = [name.split(".") for name in names]
    return [
        f"{section}.{key}"
        for section, key in places
        if getattr(getattr(before, section), key) != getattr(getattr(after, section), key)
    ]
