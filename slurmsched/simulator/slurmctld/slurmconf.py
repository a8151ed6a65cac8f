"""How a modelled Slurm is configured: slurm.conf's say in priorities and scheduling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ...cluster.text.tres import seconds
from ...slurm.versions import SlurmRelease
from .multifactor import Weights
from .slurmctld import SlurmctldConfig

ALL = 1_000_000


@dataclass(frozen=True)
class SlurmConf:
    """Rules and weights, and what starts and ends cost on the nodes."""

    rules: SlurmctldConfig = field(default_factory=SlurmctldConfig)
    weights: Weights = field(default_factory=Weights)
    launch_s: float = 0.0  #: from the start Slurm records to the first line of the script, and back at the end
    release_s: float = 0.0  #: from the end of a run until its nodes are free: epilog and completion

    @classmethod
    def easy(cls) -> SlurmConf:
        """Stock scheduling with one reservation at a time, and slurmctld's loops at every event: the baseline."""
        return cls(SlurmctldConfig(poll_s=0.0, batch_sched_delay_s=0.0, default_queue_depth=ALL, reservations=1))

    @classmethod
    def of(cls, config: Mapping[str, str]) -> SlurmConf:
        """What ``scontrol show config`` says; what it does not say is Slurm's default."""
        options = dict(part.partition("=")[::2] for part in config.get("SchedulerParameters", "").split(","))
        rules = SlurmctldConfig(
            batch_sched_delay_s=_number(options, "batch_sched_delay", 3.0),
            default_queue_depth=int(_number(options, "default_queue_depth", 100)),
            bf_interval_s=_number(options, "bf_interval", 30.0),
            bf_resolution_s=_number(options, "bf_resolution", 60.0),
            bf_window_s=60 * _number(options, "bf_window", 1440),
            bf_max_job_test=int(_number(options, "bf_max_job_test", 500)),
            reservations=int(_number(options, "bf_max_job_test", 500)),
            calc_period_s=_span(config, "PriorityCalcPeriod", 300.0),
            requeue_delay_s=SlurmRelease.of(config).requeue_delay_s(config),
        )
        weights = Weights(
            age=_number(config, "PriorityWeightAge", 0.0),
            max_age_s=_span(config, "PriorityMaxAge", 604800.0),
            fair_share=_number(config, "PriorityWeightFairShare", 0.0),
            half_life_s=_span(config, "PriorityDecayHalfLife", 604800.0),
            size=_number(config, "PriorityWeightJobSize", 0.0),
            qos=_number(config, "PriorityWeightQOS", 0.0),
        )
        return cls(rules, weights)

    def with_overheads(self, launch_s: float, release_s: float) -> SlurmConf:
        """The same Slurm on nodes where starts and ends cost so much."""
        return replace(self, launch_s=launch_s, release_s=release_s)


def _number(texts: Mapping[str, str], name: str, otherwise: float) -> float:
    """Always a float: another type would have the whole machine compiled once more."""
    try:
        return float(texts[name])
    except (KeyError, ValueError):
        return float(otherwise)


def _span(config: Mapping[str, str], name: str, otherwise: float) -> float:
    """A time such as ``7-00:00:00`` or ``00:05:00``; zero and nonsense count as not said."""
    try:
        return seconds(config[name]) or otherwise
    except (KeyError, ValueError):
        return otherwise
