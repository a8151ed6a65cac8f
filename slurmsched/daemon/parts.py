"""The parts of one daemon: its cycles, its answers and its doors work with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..clock import Clock
from ..config import Settings
from ..cycle import CycleContext
from ..db.leader import Leadership
from ..db.store import Store
from ..explain.passed import PassedBy
from ..models.runtime.active import ActiveModel
from .active_actor import ActiveActor
from .active_policy import ActivePolicy
from .cluster_facts import ClusterFacts
from .compiled_code import CompiledCode
from .hourly_counts import HourlyCounts
from .idle.idle_service import IdleGpusOfJobs
from .knowledge import Knowledge
from .metrics import Metrics
from .order_effects_service import OrderEffectsService
from .order_replay import OrderReplay
from .plugin_decider import PluginDecider
from .predictions.prediction_service import PredictionService
from .profiling_controller import ProfilingController
from .shadow_decider import ShadowDecider
from .suggestions import Suggestions
from .synthesis_service import CompositionSwitcher, SynthesisService
from .trial.trial_policy import TrialPolicy


@dataclass
class Parts:
    """The parts of one daemon, built once by ``cli``."""

    settings: Settings
    read_settings: Callable[[], Settings]  #: as they are on disk now; ConfigError where they are invalid
    clock: Clock
    store: Store
    facts: ClusterFacts
    leadership: Leadership
    context: CycleContext
    knowledge: Knowledge
    active_model: ActiveModel
    active_policy: ActivePolicy
    actor: ActiveActor
    profiling: ProfilingController
    counts: HourlyCounts
    switcher: CompositionSwitcher
    synthesis: SynthesisService
    decider: PluginDecider
    shadow: ShadowDecider
    predictions: PredictionService | None  #: None where they are off, or not possible
    code: CompiledCode
    metrics: Metrics
    idle: IdleGpusOfJobs
    suggestions: Suggestions
    trial: TrialPolicy
    orders: OrderEffectsService
    replay: OrderReplay
    passed: PassedBy = field(default_factory=PassedBy)

    @property
    def cluster_name(self) -> str:
        """The cluster's name in the database."""
        return self.facts.latest.cluster

    def close(self) -> None:
        """Close the database, and stop the processes beside the cycles."""
        self.decider.close()
        self.shadow.close()
        self.synthesis.close()
        self.orders.close()
        self.store.close()
