"""The construction of the daemon's parts from the settings."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ...cluster.job_record import outcomes_of
from ...cluster.kind_speeds import KindSpeeds
from ...cluster.node_loads import NodeLoads
from ...cluster.node_ranges import NodeRanges
from ...cluster.power_saving import ResumeTimes
from ...cluster.records.faults import Fault, Instability
from ...cluster.records.usage import UsageTable
from ...cluster.restart_costs import RestartCosts
from ...cluster.state import ClusterState
from ...cluster.stranded_gpus import StrandedGpus
from ...cluster.text.gpu_types import GpuParts
from ...config import Settings
from ...cycle import CycleContext, CycleReport
from ...daemon.active_actor import ActiveActor
from ...daemon.active_policy import ActivePolicy
from ...daemon.api.http_metrics import metrics_access
from ...daemon.api.live_answers import LiveAnswers
from ...daemon.api.query_server import QueryWorkers
from ...daemon.api.record_summaries import FigureQueries
from ...daemon.api.remote_access import RemoteAccess, remote_access
from ...daemon.api.remote_server import RemoteServer
from ...daemon.cluster_facts import ClusterFacts
from ...daemon.compiled_code import CompiledCode
from ...daemon.controller import Components, DaemonController
from ...daemon.database_inspector import Inspector
from ...daemon.hourly_counts import CallCounter, HourlyCounts
from ...daemon.job_placements import JobPlacements
from ...daemon.metrics import Metrics
from ...daemon.notify import Notifier
from ...daemon.plugin_decider import PluginDecider
from ...daemon.predictions.play_forward import Forward, PredictionStore, prediction_service
from ...daemon.predictions.prediction_process import PredictionWorker
from ...daemon.predictions.prediction_service import PredictionService
from ...daemon.present import Present
from ...daemon.profiles.profile_receiver import ProfileReceiver, Receiver, RecordIntake, parse_listen
from ...daemon.profiling_controller import ProfilingController
from ...daemon.progress_book import ProgressBook
from ...daemon.service import Service, ServiceParts
from ...daemon.shadow_decider import ShadowDecider
from ...daemon.sharing_context import SharingContext
from ...daemon.solver_service import SolverService
from ...daemon.synthesis_service import CompositionPlayer, CompositionSwitcher, SynthesisService
from ...daemon.usage_service import UsageService
from ...daemon.validation import demand_valid
from ...db.leader import Leadership, leadership
from ...db.memory import Memory
from ...db.store import Store, Unchanged
from ...decide.fragmented_waits import FragmentedWaits
from ...decide.policy import Policy
from ...decide.turns import TURN_S, Turns
from ...errors import MemoryUnavailable
from ...explain.passed import PassedBy
from ...models.registry import ArtifactRegistry
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
PREDICTION_WORKER = "slurmsched.simulator.prediction_worker"
"""The module that predicts in a process of its own."""
WARM_UP_WORKER = "slurmsched.simulator.warm_up_worker"
"""The module that compiles in a process of its own."""
SYNTHESIS_WORKER = "slurmsched.simulator.synthesis_worker"
"""The module that plays compositions forward in a process of its own."""


@dataclass(frozen=True)
class Daemon:
    """A daemon that is ready to run, and its database."""

    controller: DaemonController
    service: Service
    world: CycleContext
    leadership: Leadership
    store: Store
    decider: PluginDecider
    shadow: ShadowDecider
    synthesis: SynthesisService

    @property
    def policy(self) -> Policy:
        """The policy in force, including an admin's choice."""
        return self.world.policy

    def dry_run(self, now_s: float) -> CycleReport:
        """Run one cycle that observes and writes nothing anywhere."""
        return self.controller.dry_run(now_s)

    def close(self) -> None:
        """Close the database, and stop the processes beside the cycles."""
        self.decider.close()
        self.shadow.close()
        self.synthesis.close()
        self.store.close()


def build(app: App, *, patience_s: float = 0.0, dry: bool = False) -> Daemon:
    """Build a daemon; raises where the settings, the tables or slurmctld prevent it.

    *patience_s* limits the wait for a slurmctld that does not answer. With *dry* only ``dry_run`` is usable.
    """
    settings, artifacts, monotonic, now = app.settings(), app.artifacts(), app.clock.monotonic, Present()
    demand_valid(settings)
    actor, chosen = _policy_in_force(artifacts, settings, now)
    metrics, calls, stranded = _metrics(chosen, now), CallCounter(), StrandedGpus()
    cluster = _cluster(app, metrics, calls, now)
    facts = now.facts = ClusterFacts(cluster, app.clock, patience_s)
    store = _opened(app, dry)
    leads = leadership(store, facts.latest.cluster)
    memory = now.memory = Memory(store, cluster=facts.latest.cluster, monotonic=monotonic, leads=leads.held)
    learners = _learners(app, settings, memory, cluster, now, lambda runs: store.add_use(facts.latest.cluster, runs))
    decider, shadow = PluginDecider(), ShadowDecider(app.clock, metrics.shadow_failed)
    solver = SolverService(now.policy, LeaseSolver(), metrics.no_solver_answer)
    world = now.context = CycleContext(
        cluster=cluster,
        memory=memory,
        model=RuntimeModel.fit(outcomes_of(())),
        policy=chosen.policy,
        writer=Writer(cluster, Budget(settings.slurm.writes_per_s, settings.slurm.writes_burst), leads.held),
        clock=app.clock,
        learns=settings.forecast.learn_online,
        entering=now.progressed,
        scored=learners.filled,
        solved=solver.latest,
        decider=decider,
        turns=Turns(TURN_S, CAN_WAIT),
        shadow=shadow,
        gpu_parts=GpuParts.of_text(settings.slurm.gpu_parts),
    )
    synthesis = _synthesis(app, chosen, now, store, metrics)
    parts = Components(
        settings=settings,
        read_settings=app.reload,
        clock=app.clock,
        store=store,
        facts=facts,
        leadership=leads,
        world=world,
        serving=ActiveModel(artifacts, settings.models.serve),
        chosen=chosen,
        actor=actor,
        flow=ProfilingController(artifacts),
        sharer=learners.sharing,
        whereabouts=JobPlacements(),
        progress=learners.progress,
        speeds=learners.speeds,
        stranded=stranded,
        fragmented=FragmentedWaits(),
        usage=learners.usage,
        counts=HourlyCounts(store, facts.latest.cluster, app.clock, calls, stranded.table),
        passed=PassedBy(),
        switcher=CompositionSwitcher(chosen, synthesis.take, memory, leads.held, metrics.synthesis_step),
    )
    controller = now.controller = DaemonController(parts)
    predictions = None if dry else _predictions(app, now, store, metrics)
    service = _service(app, parts, controller, metrics, predictions, solver, synthesis, lambda: shadow.trouble)
    now.service = service
    return Daemon(controller, service, world, leads, store, decider, shadow, synthesis)


@dataclass(frozen=True)
class _Learners:
    """The parts that know of jobs and nodes what Slurm does not show; each fills its columns of an observation."""

    resumes: ResumeTimes
    sharing: SharingContext
    loads: NodeLoads
    usage: UsageService
    speeds: KindSpeeds
    restarts: RestartCosts
    progress: ProgressBook
    ranges: NodeRanges

    def filled(self, state: ClusterState) -> ClusterState:
        """Return *state* with what is known of its jobs and nodes beside what Slurm shows."""
        measured = (self.sharing.scored, self.loads.filled, self.usage.history.filled, self.speeds.filled)
        known = (self.resumes.filled, *measured, self.restarts.filled, self.progress.filled, self.ranges.filled)
        for filled in known:
            state = filled(state)
        return state


def _learners(
    app: App,
    settings: Settings,
    memory: Memory,
    cluster: Slurm,
    now: Present,
    keep_use: Callable[[UsageTable], None],
) -> _Learners:
    monotonic = app.clock.monotonic
    progress = ProgressBook(monotonic, every_s=settings.profile.report_s)
    return _Learners(
        resumes=ResumeTimes(app.clock.now, now.config),
        sharing=SharingContext(app.artifacts(), memory.mismatches, progress.table, memory.tell, monotonic),
        loads=NodeLoads(monotonic, now.overload_s),
        usage=UsageService(
            cluster,
            now.policy,
            lambda: now.settings().rightsize,
            now.config,
            app.clock,
            keep_use,
            lambda: now.settings().report.usage,
        ),
        speeds=KindSpeeds(),
        restarts=RestartCosts(),
        progress=progress,
        ranges=NodeRanges(),
    )


def _cluster(app: App, metrics: Metrics, calls: CallCounter, now: Present) -> Slurm:
    """Return the port to Slurm, each of whose commands is counted."""

    def called(command: str, result: str, took_s: float, _: int) -> None:
        metrics.slurm_call(command, result, took_s)
        calls.called(command)

    return app.cluster(called, apart=now.optional_columns)


def _policy_in_force(artifacts: ArtifactRegistry, settings: Settings, now: Present) -> tuple[ActiveActor, ActivePolicy]:
    """Return the trained actor, and the policy that may need it."""
    actor = ActiveActor(artifacts)
    return actor, ActivePolicy(actor.policy_of, settings, now.config, lambda: actor.trouble)


def _synthesis(app: App, chosen: ActivePolicy, now: Present, store: Store, metrics: Metrics) -> SynthesisService:
    """Return what plays compositions forward for ``auto``."""
    player, history = CompositionPlayer(SYNTHESIS_WORKER), partial(store.history, now.facts.latest.cluster)
    return SynthesisService(chosen, player, now.policy, now.config, history, app.clock, metrics.synthesis_played)


def _metrics(chosen: ActivePolicy, now: Present) -> Metrics:
    """Return the metrics of the policy and the model in force."""
    return Metrics(
        lambda: chosen.policy.ordering.name,
        lambda: now.model().trained_until_s,
        lambda: drift_of(now.model()),
        lambda: sum(one.raised > 0 for one in overrunners_of(now.model())),
    )


def _service(
    app: App,
    parts: Components,
    controller: DaemonController,
    metrics: Metrics,
    predictions: PredictionService | None,
    solver: SolverService,
    synthesis: SynthesisService,
    shadow_trouble: Callable[[], str],
) -> Service:
    """Build the service that runs the controller's cycles and answers queries."""
    settings, world, facts, store = parts.settings, parts.world, parts.facts, parts.store
    name = facts.latest.cluster
    code = CompiledCode(WARM_UP_WORKER, lambda: world.policy.rules.deadlines is not None)
    figures = FigureQueries(lambda: store, lambda: name, app.artifacts(), app.clock)
    answers = LiveAnswers(
        world=world,
        facts=facts,
        store=store,
        serving=parts.serving,
        chosen=parts.chosen,
        sharer=parts.sharer,
        figures=figures,
        predictions=predictions,
        predict=lambda: controller.settings.predict,
        spread=parts.speeds.by_spread,
        shadow_trouble=shadow_trouble,
        types=parts.speeds.by_type,
        stranded=parts.stranded.table,
        fragmented=parts.fragmented.table,
        passed=parts.passed,
        starting=code.missing,
    )

    def give_back(budget_s: float) -> None:
        app.time_left.bound(budget_s)
        controller.give_back(budget_s)

    receiver = _receiver(app, parts, metrics)
    return Service(
        ServiceParts(
            cycle=controller.cycle,
            clock=app.clock,
            settings=settings.daemon,
            memory=world.memory,
            leadership=parts.leadership,
            sources=answers.sources,
            metrics_access=lambda: metrics_access(app.settings().metrics),
            metrics=metrics,
            notifier=Notifier.from_environment(app.environ),
            reload=controller.reload,
            release_all=give_back,
            restraint=controller.restraint,
            collector=_collector(app, settings, facts, receiver),
            remote=_remote(app, facts, receiver, metrics),
            predictions=predictions,
            solver=solver,
            usage=parts.usage,
            counts=parts.counts,
            synthesis=synthesis,
            inspector=Inspector(store, app.clock),
            code=code,
        )
    )


def _predictions(app: App, now: Present, store: Store, metrics: Metrics) -> PredictionService | None:
    """Return the prediction service, where it is on and possible."""
    forward = Forward(now.policy, now.config, PredictionWorker(PREDICTION_WORKER))
    predict = app.settings().predict
    return prediction_service(predict, forward, PredictionStore(store, now.facts.latest.cluster), app.clock, metrics)


def _receiver(app: App, parts: Components, metrics: Metrics) -> Receiver:
    """Return what becomes of the records of nodes and the reports of jobs."""
    world, store, job_placements = parts.world, parts.store, parts.whereabouts
    name = parts.facts.latest.cluster

    def keep_unstable(instability: Instability) -> None:
        store.add_instabilities(name, [instability])
        world.memory.expect_mismatches()

    def keep_fault(fault: Fault) -> None:
        store.add_faults(name, [fault])
        if not fault.own:
            world.memory.expect_mismatches()
            metrics.shared_fault()

    return Receiver(
        addresses=NodeAddresses(app.console().query, app.clock.monotonic),
        ran=job_placements.ran,
        gone=job_placements.gone,
        save=lambda profile: store.add_profiles(name, [profile]),
        keep_fault=keep_fault,
        save_unstable=keep_unstable,
        counted=metrics.profile_record,
        report=parts.progress.take,
        counted_report=metrics.progress_report,
    )


def _collector(
    app: App, settings: Settings, facts: ClusterFacts, receiver: Receiver
) -> Callable[[], ProfileReceiver] | None:
    """Return the constructor of the profile receiver; ConfigError where ``profile.listen`` is not an address."""
    address = parse_listen(settings.profile.listen)
    if address is None:
        return None
    return lambda: ProfileReceiver(address, receiver, app.clock, unmunge=_unmunge(facts))


def _remote(
    app: App, facts: ClusterFacts, receiver: Receiver, metrics: Metrics
) -> Callable[[QueryWorkers], RemoteServer] | None:
    """Return the constructor of the door for other hosts; None where it is off."""

    def access() -> RemoteAccess | None:
        return remote_access(app.settings().remote, _unmunge(facts))

    if not app.settings().remote.listen:
        return None
    intake = RecordIntake(receiver, app.clock, lambda: app.settings().profile.token_user)
    return lambda workers: RemoteServer(access, workers, take=intake.take, counted=metrics.remote_request)


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
