"""Small clusters, histories and decisions for the tests of the database."""

from __future__ import annotations

import math

import numpy as np

from slurmsched.cluster.actions import Hold, Rank, Refusal
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.forecast import Forecast
from slurmsched.cluster.jobs import JobState, JobTable, job_table
from slurmsched.cluster.nodes import NodeTable, PartitionTable, QosTable
from slurmsched.cluster.plan import Placing, Plan, Standing
from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.cluster.state import ClusterState, View
from slurmsched.db.memory import Memory
from slurmsched.db.tracking.decisions import DecisionRecord

#: What a database might choke on: NUL, lone surrogates, the mark of our own quoting, SQL, sheer length.
HOSTILE = (
    "a\x00b",
    "\udcff\ud800",
    'json:"x"',
    "json:",
    "'; DROP TABLE jobs; --",
    "\x1b[31m|\n\r\t\\",
    "x" * 65536,
    "\U0001f600é",
    "",
    "%s %(name)s :name",
)
NAN = math.nan


def nodes() -> NodeTable:
    ints = [np.array([4]) for _ in range(6)]
    words = [Labels.of([word]) for word in ("n1", "gpu", "IDLE", "a100", "")]
    memory = np.array([1000.0])
    return NodeTable(
        words[0], words[1], words[2], np.array([True]), ints[0], ints[1], memory, memory, ints[2], ints[3], *words[3:]
    )


def partitions() -> PartitionTable:
    name = Labels.of(["gpu"])
    return PartitionTable(name, np.array([1]), np.array([True]), np.array([math.inf]), Labels.of(["n[1-4]"]))


def qos() -> QosTable:
    return QosTable(Labels.of([]), np.zeros(0, dtype=np.int64))


def jobs(count: int = 3, first: int = 1, **columns: object) -> JobTable:
    known: dict[str, object] = {
        "job_id": np.arange(first, first + count),
        "name": [HOSTILE[row % len(HOSTILE)] for row in range(count)],
        "user": [f"user{row % 7}" for row in range(count)],
        "submitted_s": np.full(count, 100.0),
        "first_submit_s": np.full(count, 100.0),
        "eligible_s": np.full(count, 100.0),
    }
    return job_table(count, **(known | columns))


def look(pending: JobTable | None = None, running: JobTable | None = None, ended: JobTable | None = None):
    tables = [job_table(0) if table is None else table for table in (pending, running, ended)]
    return ClusterState(*tables, nodes(), partitions(), qos())


def outcomes(count: int = 10, **columns: object) -> OutcomeTable:
    ended_s = 1000.0 + np.arange(count)
    started_s = np.where(np.arange(count) % 4 == 3, NAN, ended_s - 60)
    numbers = np.ones(count, dtype=np.int64)
    words = {name: Labels.of([name] * count) for name in ("account", "qos", "partition")}
    known = {
        "job_id": 1 + np.arange(count),
        "restart": 0 * numbers,
        "name": Labels.of(HOSTILE[row % len(HOSTILE)] for row in range(count)),
        "user": Labels.of(f"user{row % 3}" for row in range(count)),
        **words,
        "gpus": numbers,
        "nodes": numbers,
        "cpus": 4 * numbers,
        "time_limit_s": np.where(np.arange(count) % 2, math.inf, 3600.0),
        "first_submit_s": np.full(count, 500.0),
        "eligible_s": np.full(count, 500.0),
        "started_s": started_s,
        "ended_s": ended_s,
        "runtime_s": np.nan_to_num(ended_s - started_s, nan=0.0),
        "state": np.full(count, JobState.COMPLETED, dtype=np.int64),
    }
    return OutcomeTable(**(known | columns))


def forecast(count: int) -> Forecast:
    low_s, high_s = np.full(count, NAN), np.full(count, math.inf)
    return Forecast(np.linspace(0.1, 1e9 / 3, count), low_s, high_s, Labels.of(HOSTILE[:1] * count))


def decision(number: int = 1, now_s: float = 1000.1, count: int = 3, standing: Standing = Standing.RANKED):
    pending, running = jobs(count), jobs(2, 100)
    view = View(now_s, pending, running, nodes(), partitions(), qos(), forecast(count), forecast(2))
    rows = np.arange(count)
    placing = Placing(np.full(count, standing), rows, rows == 0, rows == 1, 1000 * rows, rows == 2)
    actions = (Rank(1, np.int64(5)), Hold(2, now_s + 0.1 + 0.2))
    refusals = (Refusal(Rank(3, 2**40), "power", HOSTILE[1]), Refusal(Hold(3, math.inf), "x"))
    plan = Plan(placing, actions, refusals)
    return DecisionRecord(number, now_s, "advise", view, plan, f'{{"a": "{HOSTILE[1]}"}}', "digest", HOSTILE[0])


def same_decision(one: DecisionRecord, other: DecisionRecord) -> bool:
    plain = ("number", "now_s", "mode", "settings_json", "models_digest", "sentence")
    tables = ("pending", "running", "nodes", "partitions", "qos", "forecast", "forecast_running")
    return (
        all(getattr(one, name) == getattr(other, name) for name in plain)
        and one.view.now_s == other.view.now_s
        and all(getattr(one.view, name).equals(getattr(other.view, name)) for name in tables)
        and one.plan.jobs.equals(other.plan.jobs)
        and one.plan.actions == other.plan.actions
        and one.plan.refusals == other.plan.refusals
    )


class CheckedMemory(Memory):
    """A memory that checks its records of jobs and intents after each change."""

    def remember(self, *args, **options):
        remembered = super().remember(*args, **options)
        self.validate()
        return remembered

    def intend(self, *args):
        super().intend(*args)
        self.validate()

    def answered(self, *args):
        super().answered(*args)
        self.validate()


STEPS = ("intended", "sent", "answered", "seen")
"""Of an action in a cycle: a daemon may be killed after each."""


def carried_out(memory, cluster, action, until="seen", cycle=1):
    """Do *action* as a cycle does, up to one of STEPS."""
    memory.intend(cycle, [action], cluster.now_s)
    if until == "intended":
        return
    answers = [(answer.action, answer.refused) for answer in cluster.act([action])]
    if until == "sent":
        return
    memory.answered(cycle, answers, cluster.now_s)
    if until == "seen":
        memory.remember(cluster.observe(), cluster.now_s, acting=True)
