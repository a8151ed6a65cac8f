"""The configuration of a modelled Slurm: slurm.conf's settings of priorities and scheduling."""

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
    """Rules and weights, and the cost of starts and ends on the nodes."""

    rules: SlurmctldConfig = field(default_factory=SlurmctldConfig)
    weights: Weights = field(default_factory=Weights)
    launch_s: float = 0.0  #: from the start Slurm records to the first line of the script, and back at the end
    release_s: float = 0.0  #: from the end of a run until its nodes are free: epilog and completion

    @classmethod
    def easy(cls) -> SlurmConf:
        """Return the textbook's baseline: one reservation at a time, of GPUs, and loops at every event."""
        return cls(
            SlurmctldConfig(
                poll_s=0.0, batch_sched_delay_s=0.0, default_queue_depth=ALL, reservations=1, whole_nodes=False
            )
        )

    @classmethod
    def of(cls, config: Mapping[str, str]) -> SlurmConf:
        """Read the output of ``scontrol show config``; missing settings have Slurm's defaults."""
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
            epilog=any(path for name, path in config.items() if name.partition("[")[0] == "Epilog"),
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
        """Return the configuration with these costs of starts and ends on the nodes."""
        return replace(self, launch_s=launch_s, release_s=release_s)


def _number(texts: Mapping[str, str], name: str, otherwise: float) -> float:
    """Return a float even for a whole number: another type would have the whole machine compiled once more."""
    try:
        return float(texts[name])
    except (KeyError, ValueError):
        return float(otherwise)


def _span(config: Mapping[str, str], name: str, otherwise: float) -> float:
    """Read a time such as ``7-00:00:00`` or ``00:05:00``; zero and invalid texts give the default."""
    try:
        return seconds(config[name]) or otherwise
    except (KeyError, ValueError):
        return otherwise
