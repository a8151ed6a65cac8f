"""A modelled Slurm behind the port of the real one, in virtual time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..cluster.actions import (
    Action,
    AskToStop,
    MoveNodes,
    Requeue,
    Resize,
    Resume,
    SetAdminComment,
    Share,
    StartShared,
    Suspend,
    Unmark,
    Unshare,
    job_of,
)
from ..cluster.events import Value
from ..cluster.jobs import JobTable
from ..cluster.node_request import read_request, requests_of
from ..cluster.nodes import NodeTable
from ..cluster.records.associations import NO_ASSOCIATIONS, AssociationTable
from ..cluster.records.outcomes import OutcomeTable, RefusedRecord
from ..cluster.records.profiles import NodeProfile
from ..cluster.records.usage import NO_USAGE, UsageTable
from ..cluster.state import ClusterState
from ..cluster.text.tres import slots_in
from ..errors import SlurmUnavailable
from ..policies.selection.job_spread import on_any_number
from ..policies.selection.resources import number_forms
from ..slurm.adapters.fake_slots import SlotAction, begin_of, changed_texts
from ..slurm.port import ActionResult, ClusterInfo, ControllerLoad
from ..slurm.write.verbs import CHANGED_MEANWHILE
from .cluster_spec import ClusterSpec, with_nodes
from .engine.calendar import END
from .engine.job_state import (
    COMPLETED,
    PENDING,
    RUNNING,
    SUSPENDED,
    UNBORN,
    JobSpeed,
    alone,
    go_on,
    pause,
    schedule,
    update_speeds_of_sharers,
)
from .gpu_profiles import MeasuredRun, ended_runs, first_measured, profiles_of, true_use
from .machine.controller import await_only, controller, extended, places_changed, request_slots
from .machine.event_loop import advance, ask_to_stop, reordered, requeue
from .machine.observation import nodes_of, observed_jobs, one_row_per_array, outcomes_of
from .machine.pair_speeds import UNMEASURED, with_pairs
from .machine.run_partitions import RunPartitions
from .slurmctld.slurmconf import SlurmConf
from .slurmctld.slurmctld import begin_at, restart_cost
from .slurmctld.state import ACTIVE, NOW, Controller, Outages, validate
from .text_edits import TextEdits
from .workload.workload import DOUBLING, EVERY_JOB, Workload, as_submitted

RELEASE = (22, 5, 8)
"""The modelled release of Slurm."""

DEFAULT_CONFIG: Mapping[str, str] = {"PriorityType": "priority/multifactor"}
"""The configuration of a Slurm of which nothing else is known."""

REMEMBERED_S = 300.0
"""How long an ended job stays visible (MinJobAge)."""


@dataclass
class SimulatedCluster:
    """The ``Slurm`` port over a modelled slurmctld. Time moves only through ``advance``.

    Our only influence on it is through actions; its jobs take the runtimes of the workload. Pending tasks of one
    array are one row, as everywhere; a task that starts keeps the id of the array.
    """

    jobs: Workload
    fleet: ClusterSpec
    conf: SlurmConf = field(default_factory=SlurmConf)
    config: Mapping[str, str] = field(default_factory=lambda: DEFAULT_CONFIG)  #: ``scontrol show config``
    submitted: JobTable | None = None  #: further columns of the jobs, row by row
    outages: Outages | None = None  #: future failures
    pace: JobSpeed | None = None  #: speeds of jobs; 1 by default
    checked: bool = False  #: validate the state after each step; AssertionError names what is broken
    doubling: float = DOUBLING  #: speed of a job on twice as many GPUs, which counts where its number is changed
    unmeasured: float = UNMEASURED  #: the speed of one job beside another where their pair was not measured
    awaited: slice = field(default_factory=lambda: EVERY_JOB)  #: the jobs whose ends end the simulation
    away: bool = False  #: do not answer, like a stopped slurmctld
    sizes: bool = False  #: an observation has the CPUs and the memory that pending jobs ask for
    admin_comments: dict[int, str] = field(default_factory=dict)  #: AdminComments by job
    model: Controller = field(init=False, repr=False)
    _partitions: RunPartitions = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._table = self._with_sizes(as_submitted(self.jobs) if self.submitted is None else self.submitted)
        self._edits, self._partitions = TextEdits(), RunPartitions()
        self.model = self._made()
        if self.awaited != EVERY_JOB:
            await_only(self.model, self.awaited)
        self._index()

    @property
    def now_s(self) -> float:
        """The virtual time."""
        return float(self.model.clock[NOW])

    @property
    def drained(self) -> bool:
        """True if every awaited job has ended."""
        return bool((self.model.stage.life.state[self.awaited] == COMPLETED).all())

    @property
    def nodes(self) -> NodeTable:
        """The nodes as they are now."""
        nodes, first = nodes_of(self.model, self.fleet), self.model.stage.resources.closed.first
        return nodes if first == len(nodes) else nodes.take(np.arange(first))

    def advance(self, until_s: float) -> None:
        """Advance time to *until_s*; with infinity, until nothing is left to happen."""
        advance(self.model, until_s)
        self._check()

    def submit(self, jobs: Workload, submitted: JobTable | None = None) -> None:
        """Queue more jobs, none submitted before a known one; those whose submit time has come are there at once."""
        self.jobs = self.jobs.joined(jobs)
        more = as_submitted(jobs) if submitted is None else submitted
        self._table = self._table.joined(self._with_sizes(more))
        self.model = extended(self.model, self._made())
        self._index()
        self.advance(self.now_s)

    def validate(self) -> None:
        """Raise AssertionError, with the numbers, where the state contradicts itself."""
        validate(self.model)

    def cancel(self, job_id: int) -> None:
        """End a running job now, as its owner."""
        stage = self.model.stage
        for row in self._rows[job_id]:
            if stage.life.state[row] == RUNNING:
                stage.life.due_s[row] = self.now_s
                schedule(stage, self.now_s, END, row)

    def facts(self) -> ClusterInfo:
        """Return the description of the cluster, on which we are Operator."""
        self._answering()
        config = {"ClusterName": "simulation", **self.config}
        return ClusterInfo(config["ClusterName"], RELEASE, config, "slurmsched", "Operator")

    def observe(self) -> ClusterState:
        """Return all jobs and nodes at once, as the real adapters do."""
        self._answering()
        self._partitions.note(self.model, self.fleet, self._table.partition)
        model, life = self.model, self.model.stage.life
        ended = np.flatnonzero((life.state == COMPLETED) & (life.ended_s > self.now_s - REMEMBERED_S))
        holding = np.sort(model.stage.running.rows[: model.stage.running.many[0]])
        waiting = np.sort(model.queue.rows[: model.queue.many[0]])
        rows = np.concatenate([waiting, holding, ended])
        jobs, first, last = observed_jobs(model, self._table, self.fleet, rows), len(waiting), len(rows) - len(ended)
        pending = one_row_per_array(jobs.take(slice(0, first)))
        return ClusterState(
            pending=pending,
            running=self._partitions.of_runs(model, jobs.take(slice(first, last)), holding),
            ended=self._partitions.of_runs(model, jobs.take(slice(last, None)), ended),
            nodes=self.nodes,
            partitions=self.fleet.partitions,
            qos=self.fleet.qos,
            melted=np.setdiff1d(self._table.job_id[waiting], pending.job_id) if len(pending) < first else waiting[:0],
            reservations=self.fleet.reservations,
        )

    def act(self, actions: Sequence[Action]) -> list[ActionResult]:
        """Carry out each action, or refuse it in Slurm's words."""
        self._answering()
        answers = [ActionResult(action, self._do(action)) for action in actions]
        self._rewrite()
        if any(answer.refused is None for answer in answers):
            reordered(self.model)
        self._check()
        return answers

    def load(self) -> ControllerLoad:
        """Return the load of a controller that is not busy."""
        self._answering()
        return ControllerLoad(0.001, 100, 0.1, 0)

    def forgot(self, job_ids: Sequence[int]) -> bool:
        """Return True if none of these jobs waits, runs, or ended a short while ago."""
        self._answering()
        life = self.model.stage.life
        rows = [row for job_id in job_ids for row in self._rows.get(job_id, [])]
        over = life.state[rows] == COMPLETED
        return not ((life.state[rows] != UNBORN) & ~(over & (life.ended_s[rows] <= self.now_s - REMEMBERED_S))).any()

    def with_our_comment(self) -> list[int]:
        """Return the jobs that were written to; nobody else writes AdminComments here."""
        self._answering()
        return [job_id for job_id, text in self.admin_comments.items() if text and not self.forgot([job_id])]

    def past_runs(self, job_ids: Sequence[int], since_s: float) -> OutcomeTable:
        """Return the last runs of *job_ids*, with their true times."""
        found = self.outcomes(since_s, np.inf)
        return found.take(np.isin(found.job_id, list(job_ids)))

    def usage(self, since_s: float, until_s: float) -> UsageTable:
        """Return nothing: workloads do not say what jobs use."""
        self._answering()
        return NO_USAGE

    def associations(self) -> AssociationTable:
        """Return the accounts of the modelled Slurm, where it has any."""
        self._answering()
        return NO_ASSOCIATIONS if self.conf.associations is None else self.conf.associations

    def outcomes(self, since_s: float, until_s: float, refused: list[RefusedRecord] | None = None) -> OutcomeTable:
        """Return the last runs of jobs, with their true times."""
        self._answering()
        life, jobs = self.model.stage.life, self.jobs
        rows = np.flatnonzero((life.state == COMPLETED) & (life.ended_s >= since_s) & (life.ended_s < until_s))
        rows = rows[np.lexsort((jobs.job_id[rows], life.ended_s[rows]))]
        table = self._partitions.of_runs(self.model, self._table.take(rows), rows)
        return outcomes_of(self.model, jobs.take(rows), table, rows)

    def _check(self) -> None:
        if self.checked:
            validate(self.model)

    def profiles(self, ended: OutcomeTable) -> list[NodeProfile]:
        """Return what the nodes measured of these runs."""
        return self._profiles(ended_runs(ended, self._rows))

    def first_profiles(self, since_s: float) -> list[NodeProfile]:
        """Return the first profiles that nodes have delivered of running jobs after *since_s*."""
        running, life = self.model.stage.running, self.model.stage.life
        rows = running.rows[: running.many[0]]
        rows = rows[life.state[rows] == RUNNING]
        columns = (rows, life.restarts[rows], life.started_s[rows])
        return self._profiles(first_measured(*columns, self._table, since_s, self.now_s))

    def _profiles(self, runs: Iterable[MeasuredRun]) -> list[NodeProfile]:
        return list(profiles_of(runs, self._table, self._use))

    def _answering(self) -> None:
        if self.away:
            raise SlurmUnavailable("simulation: slurmctld does not answer")

    def _made(self) -> Controller:
        table = self._table
        model = controller(
            self.jobs,
            self.fleet,
            self.conf,
            required=table.required_nodes,
            excluded=table.excluded_nodes,
            reservation=table.reservation,
            any_number=on_any_number(table),
            outages=self.outages,
            pace=with_pairs(self.pace or alone(self.jobs), self.jobs, self.fleet.sharing, self.unmeasured),
        )
        model.stage.life.keeps_work[:] = self._table.ckpt
        model.stage.requests.exclusive[:] = self._table.exclusive
        shares = self._table.per_node.map([bool(slots_in(text)) for text in self._table.per_node.names], np.bool_)
        request_slots(model.stage.requests, np.flatnonzero(shares).tolist(), table.per_node, self.jobs.gpus)
        number_forms(model.stage.requests)
        return model

    def _with_sizes(self, table: JobTable) -> JobTable:
        """Return *table* with the CPUs and memory that each job asks for, where an observation has them."""
        return table.changed(node_request=requests_of(table)) if self.sizes else table

    def _index(self) -> None:
        """Index the rows by the id that scontrol takes."""
        self._use = true_use(self.jobs)
        self._rows: dict[int, list[int]] = {}
        pairs = zip(self._table.job_id.tolist(), self._table.array_job_id.tolist(), strict=True)
        for row, (job_id, array) in enumerate(pairs):
            self._rows.setdefault(job_id, []).append(row)
            if array and array != job_id:
                self._rows.setdefault(array, []).append(row)

    def _move_nodes(self, move: MoveNodes) -> str | None:
        """Change the nodes of partitions; running jobs continue."""
        self._partitions.note(self.model, self.fleet, self._table.partition)
        for step in move.steps:
            if step.partition not in list(self.fleet.partitions.name):
                return f"Invalid partition name specified for partition {step.partition}"
            self.fleet = with_nodes(self.fleet, step)
            self.model = places_changed(self.model, self.jobs, self.fleet, self._table)
        return None

    def _do(self, action: Action) -> str | None:
        if isinstance(action, MoveNodes):
            return self._move_nodes(action)
        rows = self._rows.get(job_of(action), [])
        rows = [row for row in rows if self.model.stage.life.state[row] != UNBORN]
        if not rows:
            return f"Invalid job id specified for job {job_of(action)}"
        pending = [row for row in rows if self.model.stage.life.state[row] == PENDING]
        of_pending = isinstance(action, _OF_PENDING) or action.sets(self.now_s)
        refused = self._write(action, pending) if of_pending else self._change_running(action, rows[0])
        return None if refused is None else f"{refused} for job {job_of(action)}"

    def _write(self, action: Action, rows: list[int]) -> str | None:
        """Change a waiting job."""
        if not rows:
            return "Job is no longer pending execution"
        match action:
            case Share() | StartShared() | Unmark() | Unshare():
                return self._reshape(action, rows)
            case Resize():
                return self._resize(rows, action)
        return self._set(rows, action.sets(self.now_s), action.expects())

    def _set(self, rows: list[int], columns: Mapping[str, Value], expected: Mapping[str, Value]) -> str | None:
        """Change the columns of waiting jobs that an action sets."""
        for name, value in expected.items():
            if any(self._edits.text(self._table, name, row) != value for row in rows):
                return CHANGED_MEANWHILE
        for name, value in columns.items():
            if name == "site_points":
                self.model.wishes.points[rows] = int(value or 0)
            elif name == "eligible_s":
                for row in rows:
                    begin_at(self.model, row, float(value or 0.0))
            elif name == "partition" and not self.fleet.has_partitions(str(value)):
                return "Invalid partition name specified"
            else:
                self._edits.put(rows, {name: str(value)})
        return None

    def _resize(self, rows: list[int], action: Resize) -> str | None:
        """Change the GPUs that a waiting job asks for, and how long its work takes on them."""
        requests, life = self.model.stage.requests, self.model.stage.life
        gpus, before, (_, nodes) = action.gpus, action.before, action.nodes
        if gpus // nodes > self.fleet.nodes.gpus.max(initial=0) or nodes > len(self.fleet.nodes):
            return "Requested node configuration is not available"
        for row in rows:
            if requests.gpus[row] != before or (action.each and requests.nodes[row] != action.nodes[0]):
                return f"it asks for {requests.gpus[row]} GPUs by now"
            slower = (before / gpus) ** np.log2(self.doubling)
            restart_s = restart_cost(self.model, row) if life.restarts[row] else 0.0  # as long on any GPUs
            life.left_s[row] = (life.left_s[row] - restart_s) * slower + restart_s
            life.runtime_s[row] *= slower
            self.model.clock[ACTIVE] += gpus - before
            requests.gpus[row] = gpus
        changed = self._table.gpus.copy()
        changed[rows] = gpus
        self._table, self.jobs = self._table.changed(gpus=changed), replace(self.jobs, gpus=changed)
        if action.each:
            self._set_nodes(rows, *action.nodes)
        number_forms(requests)
        return None

    def _set_nodes(self, rows: list[int], before: int, nodes: int) -> None:
        """Change the nodes that waiting jobs ask for, and with them their CPUs and memory in all."""
        requests, table = self.model.stage.requests, self._table
        many, cpus, memory_mib = table.nodes.copy(), table.cpus.copy(), table.memory_mib.copy()
        requests.nodes[rows] = many[rows] = nodes
        cpus[rows] = cpus[rows] * nodes // before
        memory_mib[rows] *= nodes / before
        self._table = table.changed(nodes=many, cpus=cpus, memory_mib=memory_mib)
        self.jobs = replace(self.jobs, nodes=many)

    def _reshape(self, action: SlotAction, rows: list[int]) -> str | None:
        """Change a waiting job that shares GPUs, or is about to."""
        if not self.fleet.slots.any():
            return "Invalid generic resource (gres) specification"
        if refused := self.fleet.lacks(action):
            return refused
        try:
            texts = changed_texts(action, self._edits.text(self._table, "per_node", rows[0]))
        except ValueError as error:
            return str(error)
        self._edits.put(rows, texts)
        for row in rows:
            begin_at(self.model, row, begin_of(action, self.now_s))
        return None

    def _rewrite(self) -> None:
        """Carry out the gathered changes of texts."""
        if not self._edits:
            return
        reshaped, requests = self._edits.rows("per_node"), self.model.stage.requests
        sized = self._edits.rows("node_request")
        self._table = self._edits.apply(self._table)
        self.jobs = replace(self.jobs, partition=self._table.partition)
        if sized:
            self._apply_sizes(sized)
        before = requests.gpus[reshaped].sum()
        request_slots(requests, reshaped, self._table.per_node, self.jobs.gpus)
        self.model.clock[ACTIVE] += requests.gpus[reshaped].sum() - before
        self.model = places_changed(self.model, self.jobs, self.fleet, self._table)

    def _apply_sizes(self, rows: list[int]) -> None:
        """Let waiting jobs ask for the CPUs and the memory that their requests name."""
        requests, columns = self.model.stage.requests, {"cpus": self._table.cpus, "memory_mib": self._table.memory_mib}
        cpus, memory_mib = (column.copy() for column in columns.values())
        for row in rows:
            wanted, nodes = read_request(self._table.node_request[row]), int(self._table.nodes[row])
            if wanted is None:
                continue
            requests.cpus[row], requests.memory_mib[row] = wanted.node_cpus(nodes), wanted.node_memory_mib(nodes)
            cpus[row], memory_mib[row] = wanted.cpus, nodes * wanted.node_memory_mib(nodes)
        self._table = self._table.changed(cpus=cpus, memory_mib=memory_mib)
        self.jobs = replace(self.jobs, cpus=requests.cpus.copy(), memory_mib=requests.memory_mib.copy())

    def _change_running(self, action: Action, row: int) -> str | None:
        """Change a running job."""
        model, now_s = self.model, self.now_s
        state = model.stage.life.state[row]
        match action:
            case Requeue() if state in {RUNNING, SUSPENDED}:
                if not self._table.requeueable[row]:
                    return "Requested operation is presently disabled"
                requeue(model, row, now_s)
            case AskToStop() if state == RUNNING:
                if model.stage.life.keeps_work[row]:  # it saves its work and requeues itself
                    ask_to_stop(model, row, now_s)
            case AskToStop() if state == PENDING:
                pass  # a signal to a job that does not run has no effect
            case SetAdminComment(text=text):
                self.admin_comments[action.job_id] = text
            case Suspend() if state == RUNNING:
                pause(model.stage, row, now_s)
                model.stage.life.state[row] = SUSPENDED
                self._meet(row)
            case Resume() if state == SUSPENDED:
                model.stage.life.state[row] = RUNNING
                go_on(model.stage, row, now_s)
                self._meet(row)
            case _:
                return "Job is pending execution" if state == PENDING else "Job is no longer pending execution"
        return None

    def _meet(self, row: int) -> None:
        """Update the speeds of jobs on shared GPUs after one of them was suspended or resumed."""
        if self.model.stage.requests.slots[row]:
            update_speeds_of_sharers(self.model.stage, row, self.now_s)


_OF_PENDING = (Resize, Share, StartShared, Unmark, Unshare)
