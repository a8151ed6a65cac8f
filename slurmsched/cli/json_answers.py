"""The form of what each command prints with ``--json``; ``slurmsched schema`` makes JSON Schemas of it.

What other packages make is declared there. The commands' own answers are declared here, with types that a command must
not import before it runs; each names its type, and mypy holds both together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NotRequired, TypedDict, Union

from ..daemon.active_policy import PolicyStatus
from ..daemon.api.query_protocol import SCHEMA
from ..daemon.api.questions.contract import Question
from ..daemon.api.questions.table import QUESTIONS
from ..daemon.api.record_summaries import Choice, ModelInFull, ModelWithImportances
from ..demo.summary import BurstSummary
from ..explain.impact import GroupImpact
from ..extensions import ANSWERS as GUESTS
from ..extensions import is_there, load, registered
from ..foresee.whatif import LeftOut, OptionImpact
from ..lab.status import NodeStatus, ProcessStatus
from ..simulator.report.harm import SimulatedPolicy
from ..slurm.checkup import Finding
from ..slurm.write.release import ReleaseReport
from .json_schema import DRAFT, schema_of


class Query(TypedDict):
    """What every answer to a query of the daemon has."""

    source: Literal["daemon", "record"]
    ask: str


class HistoryImport(TypedDict):
    """What an import added."""

    cluster: str
    since_s: float
    read: int
    new: int
    refused: dict[str, int]  #: records that are no runs, by reason


class ModelComparison(TypedDict):
    """Two models of one kind."""

    first: ModelWithImportances
    second: ModelWithImportances


Decision = Literal["too early", "failed", "kept", "would be promoted", "promoted", "would be withdrawn", "withdrawn"]


class TrainedModel(TypedDict):
    """What became of one model."""

    model: str
    decision: Decision
    why: str
    scores: dict[str, dict[str, float]]
    digest: str | None


class Training(TypedDict):
    """A training of models that forecast."""

    dry_run: bool
    runs: int
    models: list[TrainedModel]


class ActorFigures(TypedDict):
    """The figures of a training of the actor."""

    seconds: float
    updates: int
    unseen: dict[str, Any]
    promoted: bool
    why: str


class ActorTraining(ActorFigures):
    """A training of the actor."""

    dry_run: bool


class PolicyShown(PolicyStatus):
    """The ordering in force."""

    source: Literal["daemon", "record"]
    mode: str


class PolicyWithChoices(PolicyShown):
    """The ordering in force, and earlier choices, as ``--all`` shows them."""

    choices: list[Choice]


class TrialStarted(TypedDict):
    """A trial that began."""

    started_s: float
    until_s: float
    seed: int


class TrialStopped(TypedDict):
    """The trial that an admin ended."""

    started_s: float


class Frozen(TypedDict):
    """What ``policy freeze`` did."""

    composition: str
    frozen: bool


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
    """Problems of the settings; where there are none, ``files``, the number of settings ``said``, and ``notes``."""

    problems: list[str]
    files: NotRequired[list[str]]
    said: NotRequired[int]
    notes: NotRequired[list[str]]


class SettingsShown(TypedDict):
    """Every setting in force."""

    settings: dict[str, Any]
    levels: dict[str, str]
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
    advice: Sequence[GroupImpact]


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
    rows: Sequence[OptionImpact]
    counted: NotRequired[int]
    suspended: NotRequired[int]
    beyond: NotRequired[int]
    guessed: NotRequired[int]
    draws: NotRequired[int]
    left_out: NotRequired[Sequence[LeftOut]]
    assumed: NotRequired[Sequence[str]]
    more_nodes: NotRequired[MoreNodes | None]


def _asked_by(command: str) -> list[Question]:
    """Return the questions to a daemon, or to its records, that *command* asks."""
    return [question for question in QUESTIONS.values() if command in (question.command, f"ask {question.name}")]


def _form_of(questions: Sequence[Question]) -> Any:
    """Return the form of the answers to *questions*."""
    forms = [form for one in questions for form in (one.form, one.recorded_form) if form is not None]
    return Union[tuple(forms)]  # noqa: UP007  # the members are known when it runs


ANSWERS: dict[str, Any] = {
    "once": OneCycle,
    "check": Checked,
    "node-check": NodeChecked,
    **{one.command: _form_of(_asked_by(one.command)) for one in QUESTIONS.values() if one.command},
    "replay": Replayed,
    "policy show": PolicyShown | PolicyWithChoices,
    "policy set": Choice,
    "policy freeze": Frozen,
    "trial start": TrialStarted,
    "trial stop": TrialStopped,
    "config check": SettingsChecked,
    "config show": SettingsShown,
    "history import": HistoryImport,
    "train": Training | ActorTraining,
    "models show": ModelInFull,
    "models compare": ModelComparison,
    "warm-up": WarmedUp,
    "release-all": ReleaseReport,
    "simulate": Simulation,
    "what-if": WhatIf,
    "lab status": LabShown,
    "demo": Demonstration,
}
"""The form of each command's answer, beside the key ``schema`` that every answer has."""


def forms() -> list[str]:
    """Return the commands whose answers have a form, those that entry points add last."""
    return [*ANSWERS, *(entry.name.replace(".", " ") for entry in registered(GUESTS) if is_there(entry))]


def _guest_form(command: str) -> Any:
    """Return the form of the answer of a command that an entry point adds; KeyError where there is none."""
    for entry in registered(GUESTS, command.replace(" ", ".")):
        return load(entry, f"the command {command}")
    raise KeyError(command)


def answer_schema(command: str, *, closed: bool = False) -> dict[str, Any]:
    """Return the JSON Schema of what *command* prints with ``--json``; a *closed* one permits no further keys.

    ``ask NAME`` has one too; KeyError for a command without.
    """
    questions = _asked_by(command)
    form = _form_of(questions) if questions else ANSWERS.get(command)
    made = schema_of(_guest_form(command) if form is None else form, closed=closed)
    head = {"schema": {"const": SCHEMA}} | (schema_of(Query)["properties"] if questions else {})
    for one in made.get("anyOf", [made]):
        one["properties"] = head | one["properties"]
        one["required"] = [*head, *one["required"]]
    return {"$schema": DRAFT, "title": f"slurmsched {command} --json", **made}
