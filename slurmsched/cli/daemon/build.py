"""The construction of the daemon's parts from the settings."""

from __future__ import annotations

import logging
import os
import re
from dataclasses import dataclass
from functools import partial

from ...cluster.job_record import outcomes_of
from ...cluster.node_loads import NodeLoads
from ...cluster.power_saving import ResumeTimes
from ...cluster.records.faults import Fault, Instability
from ...cluster.records.profiles import NodeProfile
from ...cluster.text.gpu_types import GpuParts
from ...cycle import CycleContext, CycleReport
from ...daemon.active_actor import ActiveActor
from ...daemon.active_policy import ActivePolicy
from ...daemon.api.http_metrics import metrics_access
from ...daemon.api.named_users import named_users
from ...daemon.api.record_summaries import FigureQueries
from ...daemon.api.remote_access import RemoteAccess, remote_access
from ...daemon.api.remote_server import RemoteServer
from ...daemon.cluster_facts import ClusterFacts
from ...daemon.compiled_code import CompiledCode, Patience
from ...daemon.controller import DaemonController
from ...daemon.database_inspector import Inspector
from ...daemon.follower import Follower
from ...daemon.hourly_counts import CallCounter, HourlyCounts
from ...daemon.idle.idle_service import IdleGpusOfJobs, IdleStore, idle_gpus_of_jobs
from ...daemon.knowledge import Knowledge
from ...daemon.live_answers import LiveAnswers
from ...daemon.metrics import Metrics
from ...daemon.notices.events import Look
from ...daemon.notices.health import health_of
from ...daemon.notices.recipients import Recipients
from ...daemon.notices.service import NoticeService
from ...daemon.notify import Notifier
from ...daemon.order_effects_service import OrderEffectsService
from ...daemon.order_replay import order_replay
from ...daemon.parts import Parts
from ...daemon.plugin_decider import PluginDecider
from ...daemon.predictions.play_forward import PlayForward, PredictionStore, prediction_service
from ...daemon.predictions.prediction_process import PredictionWorker
from ...daemon.predictions.prediction_service import PredictionService
from ...daemon.present import Present
from ...daemon.profiles.profile_receiver import ProfileReceiver, Receiver, RecordIntake, parse_listen
from ...daemon.profiles.prometheus_service import PrometheusProfiles
from ...daemon.profiling_controller import ProfilingController
from ...daemon.progress_book import ProgressBook
from ...daemon.service import Door, Service, ServiceParts, metrics_door
from ...daemon.shadow_decider import ShadowDecider
from ...daemon.sharing_context import SharingContext
from ...daemon.solver_service import SolverService
from ...daemon.suggestions import Suggestions
from ...daemon.synthesis_service import CompositionPlayer, CompositionSwitcher, SynthesisService
from ...daemon.trial.trial_counts import TrialCounts
from ...daemon.trial.trial_policy import TrialPolicy
from ...daemon.usage_service import UsageService
from ...daemon.validation import demand_valid
from ...db.leader import leadership
from ...db.memory import Memory
from ...db.store import Store, Unchanged
from ...decide.policy import Policy
from ...decide.turns import TURN_S, Turns
from ...errors import MemoryUnavailable
from ...explain.eta import LivePredictions
from ...models.runtime.active import ActiveModel, drift_of, overrunners_of
from ...models.runtime.baseline import RuntimeModel
from ...policies.deadlines.lease_solver import LeaseSolver
from ...powers import CAN_WAIT
from ...slurm.port import Slurm
from ...slurm.read.node_addresses import NodeAddresses
from ...slurm.write.budget import Budget
from ...slurm.write.writer import Writer
from ..app import App, has_tables, make_tables

logger = logging.getLogger(__name__)

PATIENCE_S = 60.0  #: limit for a starting daemon's wait for slurmctld; then it exits and is started again
PREDICTION_WORKER = "slurmsched.foresee.prediction_worker"
"""The module that predicts in a process of its own."""
WARM_UP_WORKER = "slurmsched.foresee.warm_up_worker"
"""The module that compiles in a process of its own."""
PROMETHEUS_WORKER = "slurmsched.daemon.profiles.prometheus_worker"
"""The module that asks Prometheus in a process of its own."""
ORDERS_WORKER = "slurmsched.foresee.order_effects_worker"
"""The module that plays the queue forward under other orders in a process of its own."""
SYNTHESIS_WORKER = "slurmsched.foresee.synthesis_worker"
"""The module that plays compositions forward in a process of its own."""


@dataclass(frozen=True)
class Daemon:
    """A daemon that is ready to run, and its parts."""

    controller: DaemonController
    service: Service
    parts: Parts

    @property
    def policy(self) -> Policy:
        """The policy in force, including an admin's choice."""
        return self.parts.context.policy

    def dry_run(self, now_s: float) -> CycleReport:
        """Run one cycle that observes and writes nothing anywhere."""
        return self.controller.dry_run(now_s)

    def close(self) -> None:
        """Close the database, and stop the processes beside the cycles."""
        self.parts.close()


def build(app: App, *, patience_s: float = 0.0, dry: bool = False) -> Daemon:
    """Build a daemon, within *patience_s* for slurmctld, *dry* for ``dry_run`` alone; raises where it cannot run."""
    settings, artifacts, now, calls = app.settings(), app.artifacts(), Present(), CallCounter()
    demand_valid(settings)
    actor = ActiveActor(artifacts)
    policy = ActivePolicy(actor.policy_of, settings, now.config, lambda: actor.trouble)
    metrics = _metrics(policy, now)
    cluster = _cluster(app, metrics, calls, now)
    facts = now.facts = ClusterFacts(cluster, app.clock, patience_s)
    name, store = facts.latest.cluster, _opened(app, dry)
    leads = leadership(store, name)
    memory = now.memory = Memory(store, cluster=name, monotonic=app.clock.monotonic, leads=leads.held)
    knowledge = _knowledge(app, now, cluster, store, metrics)
    decider, shadow = PluginDecider(), ShadowDecider(app.clock, metrics.shadow_failed)
    context = now.context = CycleContext(
        cluster=cluster,
        memory=memory,
        model=RuntimeModel.fit(outcomes_of(())),
        policy=policy.policy,
        writer=Writer(cluster, Budget(settings.slurm.writes_per_s, settings.slurm.writes_burst), leads.held),
        clock=app.clock,
        learns=settings.forecast.learn_online,
        beside=knowledge,
        decider=decider,
        turns=Turns(TURN_S, CAN_WAIT),
        shadow=shadow,
        gpu_parts=GpuParts.of_text(settings.slurm.gpu_parts),
    )
    synthesis, beside = _synthesis(app, policy, now, store, metrics), _play_forward(now)
    parts = Parts(
        settings=settings,
        read_settings=app.reload,
        clock=app.clock,
        store=store,
        facts=facts,
        leadership=leads,
        context=context,
        knowledge=knowledge,
        active_model=ActiveModel(artifacts, settings.models.serve),
        active_policy=policy,
        actor=actor,
        profiling=ProfilingController(artifacts),
        counts=HourlyCounts(store, name, app.clock, calls, knowledge.stranded.table),
        switcher=CompositionSwitcher(policy, synthesis.take, memory, leads.held, metrics.synthesis_step),
        synthesis=synthesis,
        decider=decider,
        shadow=shadow,
        predictions=None if dry else _predictions(app, now, store, metrics),
        code=CompiledCode(WARM_UP_WORKER, lambda: context.policy.rules.deadlines is not None),
        metrics=metrics,
        idle=_idle(app, beside, now, store, metrics),
        replay=order_replay(settings.predict, beside, partial(store.add_hours, name), app.clock),
        suggestions=Suggestions(store, name, app.clock),
        trial=TrialPolicy(store, name, lambda: memory.available),
        orders=OrderEffectsService(ORDERS_WORKER, now.policy, now.config, settings.daemon.every_s, app.clock),
    )
    controller = now.controller = DaemonController(parts)
    service = now.service = _service(app, parts, controller, now)
    return Daemon(controller, service, parts)


def _metrics(policy: ActivePolicy, now: Present) -> Metrics:
    """Return the metrics of the policy and the model in force."""
    return Metrics(
        lambda: policy.policy.ordering.name,
        lambda: now.model().trained_until_s,
        lambda: drift_of(now.model()),
        lambda: sum(one.raised > 0 for one in overrunners_of(now.model())),
    )


def _cluster(app: App, metrics: Metrics, calls: CallCounter, now: Present) -> Slurm:
    """Return the port to Slurm, each of whose commands is counted."""

    def called(command: str, result: str, took_s: float, _: int) -> None:
        metrics.slurm_call(command, result, took_s)
        calls.called(command)

    return app.cluster(called, apart=now.optional_columns)


def _knowledge(app: App, now: Present, cluster: Slurm, store: Store, metrics: Metrics) -> Knowledge:
    """Return what knows of jobs and nodes what Slurm does not show."""
    clock, memory = app.clock, now.memory
    reports = ProgressBook(clock.monotonic, every_s=app.settings().profile.report_s)
    keep_use = partial(store.add_use, now.facts.latest.cluster)
    return Knowledge(
        progressed=now.progressed,
        clock=clock,
        resumes=ResumeTimes(clock.now, now.config),
        sharing=SharingContext(app.artifacts(), memory.mismatches, reports.table, memory.tell, clock.monotonic),
        loads=NodeLoads(clock.monotonic, now.overload_s),
        usage=UsageService(
            *(cluster, now.policy, lambda: now.settings().rightsize, now.config, clock, keep_use),
            reported=lambda: now.settings().report.usage,
        ),
        reports=reports,
        solver=SolverService(now.policy, LeaseSolver(), metrics.no_solver_answer),
    )


def _synthesis(app: App, policy: ActivePolicy, now: Present, store: Store, metrics: Metrics) -> SynthesisService:
    """Return what plays compositions forward for ``auto``."""
    player, history = CompositionPlayer(SYNTHESIS_WORKER), partial(store.history, now.facts.latest.cluster)
    return SynthesisService(policy, player, now.policy, now.config, history, app.clock, metrics.synthesis_played)


def _play_forward(now: Present) -> PlayForward:
    """Return a play-forward of the order in force, in a process of its own."""
    return PlayForward(now.policy, now.config, PredictionWorker(PREDICTION_WORKER))


def _predictions(app: App, now: Present, store: Store, metrics: Metrics) -> PredictionService | None:
    """Return the prediction service, where it is on and possible."""
    predict = app.settings().predict
    return prediction_service(
        predict, _play_forward(now), PredictionStore(store, now.facts.latest.cluster), app.clock, metrics
    )


def _idle(app: App, forward: PlayForward, now: Present, store: Store, metrics: Metrics) -> IdleGpusOfJobs:
    """Return what becomes of idle GPUs: who holds them, and where jobs are played forward, who waits for them."""
    log = IdleStore(store, now.facts.latest.cluster)
    return idle_gpus_of_jobs(app.settings().predict, forward, log, app.clock, metrics.idle_gpus)


def _notices(app: App, parts: Parts, now: Present) -> NoticeService:
    """Return what tells owners and admins what happened."""

    def look(report: CycleReport) -> Look:
        predict = parts.settings.predict
        made = LivePredictions() if parts.predictions is None else parts.predictions.latest()
        health = health_of(now.service.status(), made.coverage, (predict.least, predict.most))
        return Look(report.view, report.plan, report.mode, made.table, parts.idle.latest().holds, health)

    recipients = Recipients(app.console().query)
    return NoticeService(
        *(lambda: parts.settings.notices, look, recipients, parts.cluster_name, app.clock), counted=parts.metrics.notice
    )


def _service(app: App, parts: Parts, controller: DaemonController, now: Present) -> Service:
    """Return the service that runs the controller's cycles and answers queries."""
    notifier = Notifier.from_environment(app.environ)
    figures = FigureQueries(lambda: parts.store, lambda: parts.cluster_name, app.artifacts(), app.clock)

    def give_back(budget_s: float) -> None:
        app.time_left.bound(budget_s)
        controller.give_back(budget_s)

    return Service(
        ServiceParts(
            cycle=controller.cycle,
            clock=app.clock,
            settings=parts.settings.daemon,
            memory=parts.context.memory,
            leadership=parts.leadership,
            metrics=parts.metrics,
            sources=LiveAnswers(parts, figures).sources,
            notifier=notifier,
            reload=controller.reload,
            release_all=give_back,
            doors=_doors(app, parts),
            followers=_followers(app, parts, notifier, now),
            named=lambda: named_users(parts.settings.web, os.geteuid()),
            restraint=controller.restraint,
        )
    )


def _followers(app: App, parts: Parts, notifier: Notifier, now: Present) -> list[Follower]:
    """Return what goes on beside the cycles; a new one needs no other place than its own module and this list."""
    return [
        *([parts.predictions] if parts.predictions else []),
        parts.knowledge.solver,
        parts.knowledge.usage,
        parts.counts,
        parts.synthesis,
        parts.idle.service,
        parts.replay,
        parts.suggestions,
        TrialCounts(parts.trial, parts.store, parts.cluster_name, app.clock),
        _notices(app, parts, now),
        PrometheusProfiles(
            lambda: parts.settings.profile,
            app.console().query,
            lambda profile: parts.store.add_profiles(parts.cluster_name, [profile]),
            PROMETHEUS_WORKER,
            app.clock,
        ),
        Inspector(parts.store, app.clock),
        parts.code,
        Patience(parts.code, notifier),
    ]


def _doors(app: App, parts: Parts) -> list[Door]:
    """Return what opens the addresses of the settings; ConfigError where ``profile.listen`` is not an address."""
    settings, receiver, unmunge = app.settings(), _receiver(app, parts), partial(_unmunge, parts.facts)
    intake = RecordIntake(receiver, app.clock, lambda: app.settings().profile.token_user)

    def access() -> RemoteAccess | None:
        return remote_access(app.settings().remote, unmunge())

    def remote(service: Service) -> RemoteServer:
        return RemoteServer(access, service.workers, take=intake.take, counted=parts.metrics.remote_request)

    doors: list[Door] = [remote] if settings.remote.listen else []
    doors.append(metrics_door(lambda: metrics_access(app.settings().metrics), parts.metrics))
    if (address := parse_listen(settings.profile.listen)) is not None:
        doors.append(lambda service: ProfileReceiver(address, receiver, app.clock, unmunge=unmunge()))
    return doors


def _receiver(app: App, parts: Parts) -> Receiver:
    """Return what becomes of the records of nodes and the reports of jobs."""
    memory, store, name, learnt = parts.context.memory, parts.store, parts.cluster_name, parts.knowledge

    def keep_unstable(instability: Instability) -> None:
        store.add_instabilities(name, [instability])
        memory.expect_mismatches()

    def keep_profile(profile: NodeProfile) -> None:
        store.add_profiles(name, [profile])
        parts.idle.book.take(profile)

    def keep_fault(fault: Fault) -> None:
        store.add_faults(name, [fault])
        if not fault.own:
            memory.expect_mismatches()
            parts.metrics.shared_fault()

    return Receiver(
        addresses=NodeAddresses(app.console().query, app.clock.monotonic),
        ran=learnt.placements.ran,
        gone=learnt.placements.gone,
        save=keep_profile,
        keep_fault=keep_fault,
        save_unstable=keep_unstable,
        counted=parts.metrics.profile_record,
        report=learnt.reports.take,
        counted_report=parts.metrics.progress_report,
    )


def _unmunge(facts: ClusterFacts) -> list[str]:
    """Return the command that opens munge credentials."""
    socket = re.search(r"\bsocket=([^,]+)", facts.latest.config.get("AuthInfo", ""))  # munged may be elsewhere
    return ["unmunge", *([f"--socket={socket[1]}"] if socket else [])]


def _opened(app: App, dry: bool) -> Store:
    """Return the database with fitting tables, which the first start creates; one that is away is used on its return.

    A *dry* run leaves a database without tables as it is.
    """
    store = app.open_store(Unchanged if dry else None)
    try:
        if not dry:
            make_tables(store)
        if has_tables(store):
            store.check()
    except MemoryUnavailable as error:
        if store.path is not None and not os.path.exists(store.path):
            raise
        logger.warning("starting without the database: %s", error)
    return store
