"""The form of what each command prints with ``--json``; ``slurmsched schema`` makes JSON Schemas of it.

Answers that dataclasses hold are these; the rest is declared here, and tests hold what commands print to it.
"""

# Annotations are values here: as texts they would not tell TypedDict which keys may be absent.

from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypedDict

from ..cluster.records.profiles import LinkUse
from ..daemon.api.query_protocol import SCHEMA
from ..db.tracking.story import StoryEvent
from ..decide.deadlines.deadline_usage import DeadlineUsage
from ..decide.explain.deadlines import DeadlineAnswer
from ..decide.explain.eta import Coverage, Eta
from ..decide.explain.explain import Explanation, QueueRow, Why
from ..decide.explain.impact import GroupImpact
from ..decide.explain.lease_chart import LeaseChart
from ..demo.summary import BurstSummary
from ..lab.status import NodeStatus, ProcessStatus
from ..models.completion.prediction_accuracy import PredictionAccuracy
from ..models.runtime.overruns import Overrunner
from ..simulator.report.harm import Harm
from ..simulator.report.metrics import Summary
from ..simulator.studies.early_stopping import CurveStudy
from ..simulator.studies.tuning.search import Gain
from ..simulator.studies.whatif import LeftOut, OptionImpact
from ..slurm.checkup import Finding
from ..slurm.write.release import ReleaseReport
from .json_schema import DRAFT, schema_of


class Answer(TypedDict):
    """What every answer of a daemon has."""

    source: Literal["daemon", "record"]
    ask: str


class OfCycle(Answer):
    """An answer from one cycle."""

    as_of_s: float
    cycle: int
    mode: NotRequired[str]


class WhyAnswer(OfCycle):
    """Why a job waits."""

    job_id: int
    why: Why


class ExplainAnswer(OfCycle):
    """The forecast, rank and priority of a job."""

    job_id: int
    explain: Explanation


class QueueAnswer(OfCycle):
    """The pending jobs."""

    order_off: str
    pending: int
    limit: int
    queue: list[QueueRow]


class EtaAnswer(OfCycle):
    """Predicted starts and finishes."""

    jobs: NotRequired[int]
    limit: NotRequired[int]
    eta: list[Eta]
    coverage: Coverage | None
    coverage_words: str


class DeadlineOfJob(OfCycle):
    """The promise to a job."""

    job_id: NotRequired[int]
    deadline: DeadlineAnswer


class DeadlineOfNewJob(OfCycle):
    """What a new job would be promised."""

    check: DeadlineAnswer


class Deadlines(OfCycle):
    """The answers to all jobs with deadlines."""

    deadlines: list[DeadlineAnswer]


class Claims(OfCycle):
    """Requests for deadlines, by user and account."""

    claims: list[DeadlineUsage]


class ChartAnswer(OfCycle):
    """The plan around a job."""

    job_id: NotRequired[int]
    chart: LeaseChart


class SpreadRow(TypedDict):
    """The speed of a kind of job on more nodes than it needs."""

    kind: str
    gpus: int
    gpu_type: str
    runs: int
    iteration_s: float
    spread_runs: int
    spread_iteration_s: float
    speed: float


class TypeRow(TypedDict):
    """The speed of a kind of job on a type of GPU, as a share of that on its fastest type."""

    kind: str
    gpus: int
    gpu_type: str
    runs: int
    seconds: float
    speed: float


class StrandedRow(TypedDict):
    """The GPU-hours that stood idle because the jobs of a user took the CPUs or the memory of their nodes."""

    account: str
    user: str
    cpu_gpu_hours: float
    memory_gpu_hours: float


class AdviceAnswer(OfCycle):
    """Who gains and who loses by our order."""

    advice: list[GroupImpact]
    overrunners: NotRequired[list[Overrunner]]
    links: NotRequired[list[LinkUse]]
    spread: NotRequired[list[SpreadRow]]
    types: NotRequired[list[TypeRow]]
    stranded: NotRequired[list[StrandedRow]]


class Story(TypedDict):
    """All that happened to a job."""

    source: Literal["daemon", "record"]
    ask: str
    job_id: int
    story: list[StoryEvent]


class SynthesisStatus(TypedDict):
    """The composition that ``auto`` has in force."""

    line: str
    composition: str
    since_s: float
    acts: bool
    frozen: bool
    advised: str
    rounds: int
    candidates: list[str]
    left_out: dict[str, str]
    step: dict[str, Any] | None


PolicyStatus = TypedDict(
    "PolicyStatus",
    {
        "ordering": str,
        "name": str,
        "summary": str,
        "parameters": dict[str, Any],
        "from": Literal["policy set", "settings"],
        "since_s": float | None,
        "by": str | None,
        "reason": str | None,
        "trouble": str,
        "shadow": str | None,
        "auto": SynthesisStatus | None,
    },
)
PolicyStatus.__doc__ = "The ordering in force."


class CycleStatus(TypedDict):
    """The last cycle."""

    number: int
    now_s: float
    sentence: str
    pending: int
    running: int
    ranked: int
    starving: int
    refused: int
    deferred: int
    order_lag_s: float
    window: int
    actions: dict[str, int]
    fallbacks: list[str]
    plugin_trouble: str
    phases_s: dict[str, float]
    promises: dict[str, int]


class DaemonStatus(Answer):
    """The state of a running daemon."""

    version: str
    pid: int
    mode: str
    configured_mode: str
    why_mode: str
    paused: bool
    leader: bool
    database_available: bool
    database_trouble: str
    every_s: float
    problem: str
    degraded: str
    bug: str
    last_error: str
    last_turn_s: float | None
    model: NotRequired[str]
    policy: NotRequired[PolicyStatus]
    cycle: NotRequired[CycleStatus]


class RecordedStatus(OfCycle):
    """The last cycle on record, where no daemon answers."""

    sentence: str
    running: Literal[False]


class Accuracy(Answer):
    """Predictions beside what came."""

    days: float
    rows: list[PredictionAccuracy]


class RunsByGpus(TypedDict):
    """Runs with one number of GPUs."""

    gpus: int
    runs: int
    runtime_p50_s: float
    runtime_p90_s: float
    wait_p50_s: float
    wait_p90_s: float


class HistoryStats(Answer):
    """The runs in the database."""

    runs: int
    users: int
    first_ended_s: float
    last_ended_s: float
    by_gpus: list[RunsByGpus]


class HistoryImport(TypedDict):
    """What an import added."""

    cluster: str
    since_s: float
    read: int
    new: int


class ModelFacts(TypedDict):
    """The data and the scores of a model."""

    kind: str
    data: str
    trained_from_s: float
    trained_until_s: float
    scores: dict[str, float]
    digest: str


class UnusableModel(TypedDict):
    """A model that cannot be used."""

    kind: str
    unusable: str


class ModelList(Answer):
    """The trained models."""

    directory: str
    models: list[ModelFacts | UnusableModel]


class ModelWithImportances(ModelFacts):
    """A model, and how much each of its inputs counts."""

    importances: dict[str, dict[str, float]]


class ModelCard(ModelWithImportances):
    """A model in full."""

    calibration: dict[str, float]
    text: str


class ModelComparison(TypedDict):
    """Two models of one kind."""

    first: ModelWithImportances
    second: ModelWithImportances


class TrainedModel(TypedDict):
    """What became of the training of one model."""

    model: str
    decision: Literal["too early", "failed", "kept", "would be promoted", "promoted", "withdrawn"]
    why: str
    scores: dict[str, dict[str, float]]
    digest: str | None


class Training(TypedDict):
    """A training of models that forecast."""

    dry_run: bool
    runs: int
    models: list[TrainedModel]


class ActorTraining(TypedDict):
    """A training of the actor."""

    dry_run: bool
    seconds: float
    updates: int
    unseen: dict[str, Any]
    promoted: bool
    why: str


class Choice(TypedDict):
    """A choice of an ordering; its author and reason are null for users who may not see them."""

    line: str
    by: str | None
    at_s: float
    reason: str | None
    synthesis: dict[str, Any] | str | None


class PolicyShown(PolicyStatus):
    """The ordering in force, and with ``--all`` earlier choices."""

    source: Literal["daemon", "record"]
    mode: str
    choices: NotRequired[list[Choice]]


class Frozen(TypedDict):
    """What ``policy freeze`` did."""

    composition: str
    frozen: bool


class NewPart(TypedDict):
    """A package that ``policy new`` wrote."""

    directory: str
    hook: str
    files: list[str]


class FailedDemand(TypedDict):
    """A demand that a part does not meet."""

    hook: str
    part: str
    demand: str
    detail: str


class Demand(TypedDict):
    """The judgement by one demand."""

    passed: bool
    detail: str


class CheckedPart(TypedDict):
    """A part of a policy, judged by each demand."""

    hook: str
    part: str
    demands: dict[str, Demand]


class PartsChecked(TypedDict):
    """What ``policy check`` found."""

    failed: list[FailedDemand]
    parts: list[CheckedPart]
    views: int
    seconds: float


class Checked(TypedDict):
    """What ``check`` found."""

    missing: int
    findings: list[Finding]


class NodeChecked(TypedDict):
    """What ``node-check`` found and measured."""

    wrong: int
    findings: list[Finding]
    measured: dict[str, Any]


class SettingsChecked(TypedDict):
    """Problems of the settings; ``files`` and the number of settings ``said`` where there are none."""

    problems: list[str]
    files: NotRequired[list[str]]
    said: NotRequired[int]


class SettingsShown(TypedDict):
    """Every setting in force."""

    settings: dict[str, Any]
    origins: NotRequired[dict[str, str]]


class Replayed(TypedDict):
    """A recorded decision made again."""

    cycle: int
    at_s: float
    identical: bool
    differences: list[str]
    auto: dict[str, Any] | None


class OneCycle(TypedDict):
    """A cycle that ``once`` ran."""

    number: int
    now_s: float
    mode: str
    sentence: str
    pending: int
    running: int
    ranked: int
    starving: int
    wanted: list[dict[str, Any]]
    not_allowed: dict[str, int]
    done: dict[str, int]
    refused: int
    deferred: int
    fallbacks: list[str]
    phases_s: dict[str, float]
    advice: list[GroupImpact]


class WarmedUp(TypedDict):
    """What ``warm-up`` compiled, and where it is kept."""

    compiled: bool
    kept: str | None
    took_s: float


class Demonstration(TypedDict):
    """A burst under stock Slurm and under slurmsched."""

    simulated: bool
    data: str
    jobs: int
    history_runs: int
    stock: BurstSummary
    slurmsched: BurstSummary
    ratio: dict[str, float]
    asked_about_job: int
    why: str
    explain: str


class LabShown(TypedDict):
    """A lab."""

    healthy: bool
    directory: str
    cluster: str
    slurm_conf: str
    answers: bool
    processes: list[ProcessStatus]
    nodes: list[NodeStatus]
    users: dict[str, str]
    ports: dict[str, int]


class JobLeftOut(TypedDict):
    """A job that is not replayed."""

    job_id: int
    why: str


class ReplayedTrace(TypedDict):
    """A trace as it was replayed."""

    file: str
    format: str
    jobs: int
    load: float | None
    seed: int | None
    notes: list[str]
    left_out: list[JobLeftOut]


@dataclass(frozen=True)
class SimulatedPolicy(Summary):
    """The figures of one policy on one trace."""

    trace: str
    load: float | None
    seed: int | None
    harm: Harm | None


class Simulation(TypedDict):
    """Policies compared on traces."""

    traces: list[ReplayedTrace]
    nodes: int
    gpus: int
    gpus_per_node: int | None
    notes: list[str]
    policies: list[SimulatedPolicy]


class MoreNodes(TypedDict):
    """The added nodes of ``what-if``."""

    count: int
    gpus: int
    partitions: str


class WhatIf(TypedDict):
    """Policies compared on the queue of now; only the first five keys where no job waits."""

    as_of_s: float
    queued: int
    running: int
    database: bool
    rows: list[OptionImpact]
    counted: NotRequired[int]
    suspended: NotRequired[int]
    beyond: NotRequired[int]
    guessed: NotRequired[int]
    left_out: NotRequired[list[LeftOut]]
    more_nodes: NotRequired[MoreNodes | None]


class Tuned(TypedDict):
    """A search for better settings."""

    jobs: int
    measured: int
    simulations: int
    current: dict[str, Any]
    best: dict[str, Any]
    searched: Gain
    held_out: Gain
    recommended: bool
    settings: list[str]


class ParetoFront(TypedDict):
    """Settings of weighted fair queueing that no other one betters."""

    trace: str
    asked: dict[str, Any]
    simulations: int
    points: list[dict[str, Any]]
    extremes: list[dict[str, Any]]


ANSWERS: dict[str, Any] = {
    "once": OneCycle,
    "check": Checked,
    "node-check": NodeChecked,
    "status": DaemonStatus | RecordedStatus,
    "queue": QueueAnswer,
    "why": WhyAnswer,
    "explain": ExplainAnswer,
    "eta": EtaAnswer,
    "accuracy": Accuracy,
    "deadline": DeadlineOfJob | DeadlineOfNewJob | Deadlines | Claims | ChartAnswer,
    "advice": AdviceAnswer,
    "story": Story,
    "replay": Replayed,
    "policy show": PolicyShown,
    "policy set": Choice,
    "policy freeze": Frozen,
    "policy check": PartsChecked,
    "policy new": NewPart,
    "config check": SettingsChecked,
    "config show": SettingsShown,
    "history import": HistoryImport,
    "history stats": HistoryStats,
    "train": Training | ActorTraining,
    "tune": Tuned,
    "models list": ModelList,
    "models show": ModelCard,
    "models compare": ModelComparison,
    "models curves": CurveStudy,
    "warm-up": WarmedUp,
    "release-all": ReleaseReport,
    "simulate": Simulation,
    "what-if": WhatIf,
    "pareto": ParetoFront,
    "lab status": LabShown,
    "demo": Demonstration,
}
"""The form of each command's answer, beside the key ``schema`` that every answer has."""


def answer_schema(command: str, *, closed: bool = False) -> dict[str, Any]:
    """Return the JSON Schema of what *command* prints with ``--json``; a *closed* one permits no further keys."""
    made = schema_of(ANSWERS[command], closed=closed)
    for one in made.get("anyOf", [made]):
        one["properties"] = {"schema": {"const": SCHEMA}} | one["properties"]
        one["required"] = ["schema", *one["required"]]
    return {"$schema": DRAFT, "title": f"slurmsched {command} --json", **made}
