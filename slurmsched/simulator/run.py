"""The replay of one trace under one policy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..cluster.columns import FloatArray, IntArray, Labels
from ..cluster.forecast import Forecast, no_forecast
from ..cluster.jobs import JobTable
from ..cycle import CycleReport
from ..db.store import Store
from ..decide.policy import Policy
from ..decide.rules import SharingRules
from ..decide.synthesis import AUTO
from ..errors import ConfigError
from ..models.arrival_counter import ArrivalCounter
from ..policies.contract import PLACEMENTS, SELECTIONS, SHARINGS
from .cluster_spec import ClusterSpec
from .cycle_driver import MEASURING, CycleDriver, IdealDriver, Watch, composed, whole_queue
from .decisions import DecisionWatch
from .earlier_usage import use_before
from .engine.keys import Keys
from .engine.segments import closed
from .fixed_forecast import FixedForecast
from .ideal_cluster import IdealCluster
from .machine.direct import direct, outages_of, rules_of, run_asking, run_direct
from .machine.pace import pace_of, spread_speeds
from .ordering_keys import key_source, keys_of
from .pair_rules import curve_of, everywhere, pair_rules, use_of
from .profiling_nodes import with_profiling
from .replay import Replay
from .replay_progress import advance_to_end, tell
from .setup import ESTIMATES, EVERY_S, EXACT, LEARNT, RESERVING, Setup
from .simulated_cluster import DEFAULT_CONFIG, SimulatedCluster
from .slurmctld.shared_accounts import SharedAccounts
from .slurmctld.slurmconf import SlurmConf
from .slurmctld.state import FRAGMENTED, IDLE, Controller, SlurmctldConfig, validate
from .speeds.type_speeds import TypedJobs, at_mean_speed, on_types, with_type_speeds
from .synthesizer import Synthesizer
from .unfit_jobs import too_large
from .workload.workload import EVERY_JOB, NO_EARLIER_JOBS, EarlierJobs, Workload, as_submitted, of_gpus_alone

STEER_MARGIN_S = 5.0
"""How much longer than a cycle a new job waits where jobs are steered."""

CHECKED_EACH_TIME = 1_000
"""Jobs up to which a check looks at a pool of equal nodes after each decision; with more, once at the end."""


def simulate(
    jobs: Workload,
    fleet: ClusterSpec,
    setup: Setup,
    *,
    learnt: Forecast | None = None,
    segments: bool = False,
    check: bool = False,
    awaited: slice = EVERY_JOB,
    earlier: EarlierJobs = NO_EARLIER_JOBS,
    past: Workload | None = None,
    types: TypedJobs | None = None,
    watch: Watch | None = None,
) -> Replay:
    """Replay *jobs* on *fleet*, with compiled event loops where there are any.

    The replay ends with the last of the *awaited* jobs; others may go on then, with NaN for what did not happen.
    *learnt* has the forecasts for a setup with one of LEARNT; the rules of a site follow the load of its *earlier* jobs
    and these; fair share begins with the usage of *past* runs. With *segments* the replay has every run with its GPUs,
    at up to twice the cost; the executor slurm, and clusters whose jobs share GPUs, have none. *types* are speeds by
    type of GPU, for the executor slurm; there *watch* is called with the report of each of our cycles.
    With *check*, AssertionError names what is broken in the simulator's own state.
    ConfigError names a job that can never run.
    """
    fleet = fleet.dated(float(jobs.submit_s.min(initial=np.inf)))
    for misfit in too_large(jobs, fleet):
        raise ConfigError(f"job {jobs.job_id[misfit.row]} {misfit.why}")
    if np.isinf(jobs.runtime_s).any():
        raise ConfigError(
            "the runtimes of these jobs follow from what they train: say applications, throughputs or profiles (--set)"
        )
    if setup.executor == "slurm":
        return _on_slurm(jobs, fleet, setup, learnt, check, awaited, earlier, past, types, watch)
    if setup.sharing and not SHARINGS.find(setup.sharing).pairs_jobs:
        fleet = replace(fleet, sharing=None)
    exactly = fleet.sharing is None and setup.site is None and not setup.measures_slowdowns
    exactly = exactly and setup.selection in EXACT and not setup.profile_nodes and not setup.places_by_jobs
    if setup.synthesis is not None and not (exactly and fleet.equal):
        raise ConfigError(f"{AUTO} plays forward on one pool of equal nodes: accepted is --nodes")
    if not exactly:
        if fleet.topology.levels:
            raise ConfigError(
                "nodes in blocks go with no jobs that share or are measured first, and with no placement by what was "
                "measured or by the jobs at hand: leave block out of the cluster file"
            )
        return decided(jobs, fleet, setup, learnt, segments=segments, check=check, awaited=awaited)
    return _on_machine(jobs, fleet, setup, forecast_of(jobs, setup, learnt), segments, check, awaited)


def ways(jobs: Workload, fleet: ClusterSpec, setup: Setup) -> IntArray:
    """Return how each job is placed, where that does not depend on what is measured as jobs run."""
    return PLACEMENTS.find(setup.placement).ways(jobs.sensitive, spread_speeds(jobs, fleet))


def _on_slurm(
    jobs: Workload,
    fleet: ClusterSpec,
    setup: Setup,
    learnt: Forecast | None,
    check: bool,
    awaited: slice,
    earlier: EarlierJobs,
    past: Workload | None,
    types: TypedJobs | None,
    also: Watch | None,
) -> Replay:
    """Replay on a modelled slurmctld; an ordering of ours acts through our cycle."""
    conf = (
        SlurmConf.easy()
        if setup.selection == "easy"
        else SlurmConf.of(setup.slurm_config, setup.associations)
        if setup.slurm_config
        else SlurmConf()
    )
    conf = replace(conf, rules=_restarting(conf.rules, setup))
    policy = setup.site or _beside_slurmctld(setup)
    if policy.rules.resizing is not None and policy.rules.resizing.nodes:
        jobs = _by_nodes(jobs, fleet)
    failures, pace = outages_of(jobs, fleet), pace_of(jobs, fleet)
    config, submitted, shown = setup.slurm_config or DEFAULT_CONFIG, None, jobs
    if types is not None:
        if fleet.loaded:
            raise ConfigError("load of [[nodes]] does not go with speeds by type of GPU")
        pace, submitted = on_types(pace, types), with_type_speeds(jobs, types, fleet.nodes)
        shown = at_mean_speed(jobs, types)
    sizes = policy.rules.rightsizing is not None
    submitted = _within_nodes(as_submitted(jobs) if submitted is None else submitted, fleet)
    cluster = SimulatedCluster(
        jobs, fleet, conf, config, submitted, outages=failures, pace=pace, checked=check, awaited=awaited, sizes=sizes
    )
    if past is not None:
        use_before(cluster.model.usage, cluster.model.weights, SharedAccounts.of(jobs, conf.associations), past)
    if setup.steer:  # as job_submit.lua delays them, so that a cycle sees them before slurmctld starts them
        cluster.model.stage.life.begin_s[:] += (setup.beat_s or EVERY_S) + STEER_MARGIN_S
    if setup.site is None and setup.ordering.native and setup.admits is None and not setup.changes_jobs:
        advance_to_end(cluster)
        return _modelled(cluster.model, jobs, fleet, setup, no_forecast(len(jobs)))
    tell(cluster)
    forecast, decisions = forecast_of(shown, setup, learnt), DecisionWatch()

    def watch(report: CycleReport) -> None:
        decisions.watch(report)
        tell(cluster)
        if also is not None:
            also(report)

    arrivals = None
    if setup.site is not None:
        arrivals = ArrivalCounter(setup.throughput)
        arrivals.learn(*earlier)
    CycleDriver(
        cluster,
        policy,
        FixedForecast(jobs.job_id, forecast),
        every_s=setup.beat_s or EVERY_S,
        writes_per_s=setup.writes_per_s,
        writes_burst=setup.writes_burst,
        arrivals=arrivals,
        watch=watch,
        began=decisions.entering,
    ).run()
    return replace(_modelled(cluster.model, jobs, fleet, setup, forecast), decisions=decisions.figures())


def _beside_slurmctld(setup: Setup) -> Policy:
    """Return the policy of a set-up without a site's settings."""
    return whole_queue(
        setup.ordering,
        setup.admits,
        setup.leases,
        steering=setup.steering,
        resizing=setup.resizing,
        rightsizing=setup.rightsizing,
        migration=setup.migration,
    )


def _by_nodes(jobs: Workload, fleet: ClusterSpec) -> Workload:
    """Return *jobs* where those of several sizes that need several nodes say how many, if each has as many GPUs."""
    many = np.maximum(-(-jobs.gpus // max(fleet.size, 1)), 1)
    wide = (jobs.most_gpus > 0) & (many > 1) & (jobs.nodes <= 1) & (jobs.gpus % many == 0)
    return replace(jobs, nodes=np.where(wide, many, jobs.nodes)) if wide.any() else jobs


def _within_nodes(jobs: JobTable, fleet: ClusterSpec) -> JobTable:
    """Return *jobs* with one number of GPUs for those that need several nodes, and do not say how many."""
    wide = (jobs.most_gpus > 0) & (jobs.gpus > fleet.size) & (jobs.nodes <= 1)
    if not wide.any():
        return jobs
    least, most = (np.where(wide, 0, column) for column in (jobs.least_gpus, jobs.most_gpus))
    return jobs.changed(least_gpus=least, most_gpus=most)


def _on_machine(
    jobs: Workload,
    fleet: ClusterSpec,
    setup: Setup,
    forecast: Forecast,
    segments: bool,
    check: bool,
    awaited: slice,
) -> Replay:
    """Replay with the direct executor."""
    source, steps, synthesis = None, setup.ordering.steps if setup.selection == "preemptive" else (), None
    keys = Keys(np.zeros((len(steps) + 1, len(jobs))), np.zeros(len(jobs)), np.array(steps))
    if setup.ordering.changes == "with_time":
        source = key_source(jobs, fleet, setup.ordering, forecast)
    elif len(jobs):
        keys = keys_of(jobs, setup.ordering, forecast)
    rules = _restarting(rules_of(setup.selection, setup.beat_s, setup.depth), setup)
    if np.isfinite(setup.admission):
        # a bound that is a whole number of GPUs except for rounding is that number
        rules = rules._replace(admission=setup.admission * fleet.total * (1 + 1e-12))
    if setup.selection in RESERVING:
        _reserve_by(jobs, setup)
    failures, pace = outages_of(jobs, fleet), pace_of(jobs, fleet)
    work, machine = _gpus_alone(jobs, fleet, setup) if fleet.equal else (jobs, fleet)
    placed, plain = ways(jobs, fleet, setup), fleet.equal and setup.selection not in RESERVING
    model = direct(work, machine, rules, keys, placed, outages=failures, pace=pace, awaited=awaited, logged=segments)
    if setup.synthesis is not None and len(jobs):
        synthesizer = Synthesizer(work, forecast, setup.synthesis, model)
        synthesis, model = synthesizer.run(), synthesizer.model
    elif source is not None or (check and (len(jobs) <= CHECKED_EACH_TIME or not plain)):
        model = run_asking(model, source, check=check)
    else:
        model = run_direct(model)
        if check:
            validate(model)
    return replace(_modelled(model, jobs, fleet, setup, forecast), synthesis=synthesis)


def _gpus_alone(jobs: Workload, fleet: ClusterSpec, setup: Setup) -> tuple[Workload, ClusterSpec]:
    """Return what counts on a pool of equal nodes: the GPUs of jobs, and of nodes unless their boundaries do not."""
    return of_gpus_alone(jobs), ClusterSpec.of(1, fleet.total) if setup.placement == "pool" else fleet


def decided(
    jobs: Workload,
    fleet: ClusterSpec,
    setup: Setup,
    learnt: Forecast | None = None,
    *,
    store: Store | None = None,
    segments: bool = False,
    check: bool = False,
    awaited: slice = EVERY_JOB,
) -> Replay:
    """Replay *jobs* through the daemon's own cycle and decide(), on a cluster that carries plans out as they are.

    Where the cluster lets jobs share GPUs, the rule of the set-up pairs them, by default ``indolent``. With *segments*
    the replay has every run with its GPUs, unless jobs share these. With *check*, AssertionError names what is broken
    in the state of the cluster. *store* has the profiles of earlier runs, by default none.
    """
    fleet = fleet.dated(float(jobs.submit_s.min(initial=np.inf)))
    for misfit in too_large(jobs, fleet):
        raise ConfigError(f"job {jobs.job_id[misfit.row]} {misfit.why}")
    if setup.site is not None and setup.site.rules.deadlines is not None:
        raise ConfigError("a site's promises are made beside slurmctld: leave out the executor direct, or [deadline]")
    sharing, preempts = _pair_rules(jobs, fleet, setup), SELECTIONS.find(setup.selection).preempts
    if SELECTIONS.find(setup.selection).reserves:
        _reserve_by(jobs, setup)
    forecast = forecast_of(jobs, setup, learnt)
    conf = SlurmConf(_restarting(rules_of("preemptive" if preempts else "strict", setup.beat_s, setup.depth), setup))
    steps = setup.ordering.steps if preempts else ()
    failures, pace = outages_of(jobs, fleet), pace_of(jobs, fleet)
    named = _with_own_ids(jobs)
    work, machine = _gpus_alone(named, fleet, setup) if fleet.equal else (named, fleet)
    machine = replace(machine, shared="")  # pairs need no slots here
    profiling = None if setup.site is None else setup.site.rules.profiling
    powers = MEASURING if setup.site is None else MEASURING & setup.site.rules.powers
    if setup.profile_nodes:
        work, machine, profiling = with_profiling(work, machine, setup)
    logged = segments and fleet.sharing is None
    cluster = IdealCluster(
        work, machine, conf, outages=failures, pace=pace, checked=check, awaited=awaited, steps=steps, logged=logged
    )
    if setup.slowdowns == "exact":
        cluster.show_spread_speeds(spread_speeds(jobs, fleet))
    decisions = DecisionWatch()
    policy = composed(setup.ordering, setup.composition, sharing, profiling, powers, setup.admits)
    IdealDriver(
        cluster,
        policy,
        FixedForecast(named.job_id, forecast),
        store=store,
        slowdowns_known=setup.slowdowns == "exact",
        watch=decisions.watch,
        began=decisions.entering,
    ).run()
    return replace(_modelled(cluster.model, jobs, fleet, setup, forecast), decisions=decisions.figures())


def _with_own_ids(jobs: Workload) -> Workload:
    """Return *jobs* with an id for each: traces have one id for all tasks of an array."""
    if len(np.unique(jobs.job_id)) == len(jobs):
        return jobs
    return replace(jobs, job_id=np.arange(1, len(jobs) + 1))


def _pair_rules(jobs: Workload, fleet: ClusterSpec, setup: Setup) -> SharingRules | None:
    """Return the rules of pairs: a site's, else by default ``indolent``; None where the cluster lets no jobs share."""
    if fleet.sharing is None:
        return None
    curve = curve_of(fleet.sharing, use_of(jobs, fleet.sharing.names))
    if setup.site is not None:
        return everywhere(setup.site.rules.sharing, curve)
    rules = pair_rules(setup.sharing or "indolent", wide=setup.wide_hosts, curve=curve)
    if rules is None or not SELECTIONS.find(setup.selection).preempts:
        return rules
    return replace(rules, apart_s=setup.restart_s)


def _restarting(rules: SlurmctldConfig, setup: Setup) -> SlurmctldConfig:
    return rules._replace(restart_s=setup.restart_s, restart_doubling_s=setup.restart_doubling_s)


def _modelled(
    model: Controller,
    jobs: Workload,
    fleet: ClusterSpec,
    setup: Setup,
    forecast: Forecast,
) -> Replay:
    """Read the outcome of jobs from a machine that has run to the end."""
    life, log = model.stage.life, model.stage.log
    return Replay(
        setup,
        fleet,
        jobs,
        life.first_s.copy(),
        life.ended_s.copy(),
        life.spread.copy(),
        life.restarts.copy(),
        forecast.runtime_s,
        idle_gpu_s=float(model.clock[IDLE]),
        fragmented_gpu_s=float(model.clock[FRAGMENTED]),
        segments=closed(log) if len(log.row) else None,
    )


def forecast_of(jobs: Workload, setup: Setup, learnt: Forecast | None) -> Forecast:
    """Return the runtime forecasts for the policy; ConfigError where it needs *learnt* and there is none."""
    if setup.forecast in LEARNT:
        if learnt is None:
            raise ConfigError(f"forecast {setup.forecast!r} needs runs to learn from")
        return learnt
    if setup.forecast in ESTIMATES:
        runtime_s = jobs.estimate_s if setup.forecast == "told" else jobs.history_s
        if np.isnan(runtime_s).any():
            raise ConfigError(f"forecast {setup.forecast!r}: accepted with traces that have an estimate for each job")
    else:
        runtime_s = jobs.runtime_s if setup.forecast == "exact" else _time_limits(jobs, "forecast by")
    source = Labels(np.zeros(len(jobs), dtype=np.int64), (setup.forecast,))
    return Forecast(runtime_s.copy(), runtime_s.copy(), runtime_s.copy(), source)


def _time_limits(jobs: Workload, what_for: str) -> FloatArray:
    missing = np.flatnonzero(~np.isfinite(jobs.time_limit_s))
    if len(missing):
        raise ConfigError(
            f"job {jobs.job_id[missing[0]]} and {len(missing) - 1} others have no time limit to {what_for}"
        )
    return jobs.time_limit_s


def _reserve_by(jobs: Workload, setup: Setup) -> None:
    _time_limits(jobs, f"reserve by with {setup.selection} backfill")
