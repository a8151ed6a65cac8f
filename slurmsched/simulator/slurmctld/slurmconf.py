"""The configuration of a modelled Slurm: slurm.conf's settings of priorities and scheduling."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ...cluster.records.associations import AssociationTable
from ...cluster.text.tres import seconds
from ...slurm.versions import SlurmRelease
from .fixed_points import FixedWeights, resource_weights
from .multifactor import Weights
from .state import SlurmctldConfig

ALL = 1_000_000


@dataclass(frozen=True)
class SlurmConf:
    """Rules and weights, and the cost of starts and ends on the nodes."""

    rules: SlurmctldConfig = field(default_factory=SlurmctldConfig)
    weights: Weights = field(default_factory=Weights)
    fixed: FixedWeights = field(default_factory=FixedWeights)
    launch_s: float = 0.0  #: from the start Slurm records to the first line of the script, and back at the end
    associations: AssociationTable | None = None  #: over which fair share is computed; None: users with equal shares
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
    def of(cls, config: Mapping[str, str], associations: AssociationTable | None = None) -> SlurmConf:
        """Read the output of ``scontrol show config``; missing settings have Slurm's defaults.

        With *associations* fair share is that of a tree of accounts, by the same configuration; where they are empty,
        over the accounts of the jobs.
        """
        options = _options(config, "SchedulerParameters")
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
            half_life_s=_half_life_s(config),
            size=_number(config, "PriorityWeightJobSize", 0.0),
            qos=_number(config, "PriorityWeightQOS", 0.0),
            fair_tree=associations is not None and has_fair_tree(config),
            dampening=max(1.0, _number(_options(config, "PriorityParameters"), "FairShareDampeningFactor", 1.0)),
        )
        fixed = FixedWeights(
            partition=_number(config, "PriorityWeightPartition", 0.0),
            association=_number(config, "PriorityWeightAssoc", 0.0),
            resources=resource_weights(config.get("PriorityWeightTRES", "")),
        )
        return cls(rules, weights, fixed, associations=associations)

    def with_overheads(self, launch_s: float, release_s: float) -> SlurmConf:
        """Return the configuration with these costs of starts and ends on the nodes."""
        return replace(self, launch_s=launch_s, release_s=release_s)


def has_fair_tree(config: Mapping[str, str]) -> bool:
    """Report whether fair share is Fair Tree, as it is by default, and not the classic formula."""
    return "NO_FAIR_TREE" not in config.get("PriorityFlags", "").upper()


def _options(config: Mapping[str, str], name: str) -> dict[str, str]:
    return dict(part.partition("=")[::2] for part in config.get(name, "").split(","))


def _number(texts: Mapping[str, str], name: str, otherwise: float) -> float:
    """Return a float even for a whole number: another type would have the whole machine compiled once more."""
    try:
        return float(texts[name])
    except (KeyError, ValueError):
        return float(otherwise)


def _half_life_s(config: Mapping[str, str]) -> float:
    """Return the half-life of usage, infinite for one of zero: then it never decays."""
    try:
        return seconds(config["PriorityDecayHalfLife"]) or math.inf
    except (KeyError, ValueError):
        return Weights().half_life_s


def _span(config: Mapping[str, str], name: str, otherwise: float) -> float:
    """Read a time such as ``7-00:00:00`` or ``00:05:00``; zero and invalid texts give the default."""
    try:
        return seconds(config[name]) or otherwise
    except (KeyError, ValueError):
        return otherwise
