"""The construction of the daemon's parts from the settings."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable
from dataclasses import dataclass

from ...cluster.job_record import outcomes_of
from ...cluster.kind_speeds import KindSpeeds
from ...cluster.node_loads import NodeLoads
from ...cluster.node_ranges import NodeRanges
from ...cluster.power_saving import ResumeTimes
from ...cluster.records.faults import Fault, Instability
from ...cluster.restart_costs import RestartCosts
from ...cluster.state import ClusterState
from ...cluster.stranded_gpus import StrandedGpus
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
from ...daemon.job_placements import JobPlacements
from ...daemon.metrics import Metrics
from ...daemon.notify import Notifier
from ...daemon.plugin_decider import PluginDecider
from ...daemon.predictions.play_forward import Forward, PredictionStore, prediction_service
from ...daemon.predictions.prediction_process import PredictionWorker
from ...daemon.predictions.prediction_service import PredictionService
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
from ...decide.policy import Policy
from ...decide.turns import TURN_S, Turns
from ...errors import MemoryUnavailable
from ...models.runtime.active import ActiveModel, drift_of, overrunners_of
from ...models.runtime.baseline import RuntimeModel
from ...policies.deadlines.lease_solver import LeaseSolver
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
    settings, artifacts, monotonic = app.settings(), app.artifacts(), app.clock.monotonic
    demand_valid(settings)
    actor = ActiveActor(artifacts)
    chosen, serving, job_placements = (
        ActivePolicy(actor.policy_of, settings, lambda: facts.latest.config, lambda: actor.trouble),
        ActiveModel(artifacts, settings.models.serve),
        JobPlacements(),
    )
    metrics = _metrics(chosen, lambda: world)
    cluster = app.cluster(
        lambda command, result, took_s, _: metrics.slurm_call(command, result, took_s),
        apart=lambda: world.policy.rules.optional_columns | memory.optional_columns(),
    )
    facts = ClusterFacts(cluster, app.clock, patience_s)
    name = facts.latest.cluster
    store = _opened(app, dry)
    leads = leadership(store, name)
    flow = ProfilingController(artifacts)
    memory = Memory(store, cluster=name, monotonic=monotonic, leads=leads.held)
    decider, speeds, progress = (
        PluginDecider(),
        KindSpeeds(),
        ProgressBook(monotonic, every_s=settings.profile.report_s),
    )
    sharer = SharingContext(artifacts, memory.mismatches, progress.table, memory.tell, monotonic)
    ranges, restarts, resumes = NodeRanges(), RestartCosts(), ResumeTimes(app.clock.now, lambda: facts.latest.config)
    loads = NodeLoads(monotonic, lambda: None if (terms := world.policy.rules.migration) is None else terms.for_s)
    shadow = ShadowDecider(app.clock, metrics.shadow_failed)

    def known(state: ClusterState) -> ClusterState:
        """Return *state* with what is known of its jobs and nodes beside what Slurm shows."""
        measured = (sharer.scored, loads.filled, usage.history.filled, speeds.filled)
        for filled in (resumes.filled, *measured, restarts.filled, progress.filled, ranges.filled):
            state = filled(state)
        return state

    world = CycleContext(
        cluster=cluster,
        memory=memory,
        model=RuntimeModel.fit(outcomes_of(())),
        policy=chosen.policy,
        writer=Writer(cluster, Budget(settings.slurm.writes_per_s, settings.slurm.writes_burst), leads.held),
        clock=app.clock,
        learns=settings.forecast.learn_online,
        entering=lambda phase: service.progressed(),
        scored=known,
        decider=decider,
        turns=Turns(TURN_S),
        shadow=shadow,
    )
    usage = UsageService(
        cluster,
        lambda: world.policy,
        lambda: controller.settings.rightsize,
        lambda: facts.latest.config,
        app.clock,
    )
    synthesis = SynthesisService(
        chosen,
        CompositionPlayer(SYNTHESIS_WORKER),
        lambda: world.policy,
        lambda: facts.latest.config,
        lambda since_s: store.history(name, since_s),
        app.clock,
        metrics.synthesis_played,
    )
    parts = Components(
        settings=settings,
        read_settings=app.reload,
        clock=app.clock,
        store=store,
        facts=facts,
        leadership=leads,
        world=world,
        serving=serving,
        chosen=chosen,
        actor=actor,
        flow=flow,
        sharer=sharer,
        whereabouts=job_placements,
        progress=progress,
        speeds=speeds,
        stranded=StrandedGpus(),
        usage=usage,
        switcher=CompositionSwitcher(chosen, synthesis.take, memory, leads.held, metrics.synthesis_step),
    )
    controller = DaemonController(parts)
    predictions = None if dry else _predictions(app, world, facts, store, metrics)
    solver = SolverService(lambda: world.policy, LeaseSolver(), metrics.no_solver_answer)
    world.solved = solver.latest
    service = _service(app, parts, controller, metrics, predictions, solver, synthesis, lambda: shadow.trouble)
    return Daemon(controller, service, world, leads, store, decider, shadow, synthesis)


def _metrics(chosen: ActivePolicy, world: Callable[[], CycleContext]) -> Metrics:
    """Return the metrics of the policy and the model in force."""
    return Metrics(
        lambda: chosen.policy.ordering.name,
        lambda: world().model.trained_until_s,
        lambda: drift_of(world().model),
        lambda: sum(one.raised > 0 for one in overrunners_of(world().model)),
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
            synthesis=synthesis,
            inspector=Inspector(store, app.clock),
            code=code,
        )
    )


def _predictions(
    app: App, world: CycleContext, facts: ClusterFacts, store: Store, metrics: Metrics
) -> PredictionService | None:
    """Return the prediction service, where it is on and possible."""
    forward = Forward(lambda: world.policy, lambda: facts.latest.config, PredictionWorker(PREDICTION_WORKER))
    predict = app.settings().predict
    return prediction_service(predict, forward, PredictionStore(store, facts.latest.cluster), app.clock, metrics)


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
