"""The adapter over pyslurm: one bulk read of the queue without text to parse, where the release matches.

Slurm's commands do the rest: priority factors, GPUs requested other than per node, CPUs and memory requested per GPU,
points of 0 (pyslurm takes 0 for "not set"), and accounting: ``pyslurm.db.Jobs`` keeps one run per job id, which would
lose the runs of a requeued job, and it reports no GPUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby

from ...cluster.actions import Action, job_of
from ...cluster.jobs import JobState
from ...cluster.records.associations import AssociationTable
from ...cluster.records.outcomes import OutcomeTable, RefusedRecord
from ...cluster.records.usage import UsageTable
from ...cluster.state import ClusterState
from ...errors import SlurmUnavailable
from ..port import ActionResult, ClusterInfo, ControllerLoad
from ..read.cluster_reading import state_of
from ..read.records import RecordColumns
from ..versions import JOB_STATES
from ..write.verbs import call
from .command import SlurmCommand
from .job_queries import long
from .pyslurm_worker import Worker

_ASKED = ("JobID", "tres", "tres-per-job", "tres-per-socket", "tres-per-task", "cpus-per-tres", "mem-per-tres")
_ON_ITS_WAY = "slurmsched:share="  # the request of such a job changes, so it is never taken from an earlier read
_PER_NODE, _PER_GPU = "tres-per-node", ("cpus-per-tres", "mem-per-tres")


@dataclass
class SlurmBinding:
    """The ``Slurm`` port over pyslurm, with the command adapter for the rest."""

    command: SlurmCommand
    worker: Worker
    _requests: dict[tuple[str, str, str], tuple[str, ...]] = field(default_factory=dict)
    """Texts of ``_ASKED`` by job id, submit time and the request per node, which we change."""
    _arrays: frozenset[int] = frozenset()

    def facts(self) -> ClusterInfo:
        """Read the cluster's description anew; libslurm re-reads slurm.conf too."""
        facts = self.command.facts()
        self.worker.start()
        return facts

    def observe(self) -> ClusterState:
        """Read the queue at once, the nodes and the priority factors; squeue only when there are new jobs."""
        facts = self.command.known_facts()
        counted = "gres/gpu" in facts.config.get("AccountingStorageTRES", "")  # else pyslurm knows no GPUs in use
        with ThreadPoolExecutor(2) as beside:
            reserved = beside.submit(self.command.reserved)
            factors = beside.submit(self.command.factors) if facts.multifactor else None
            jobs = self.command.with_optional_columns(self._with_requests(RecordColumns(self.worker.call("jobs"))))
            self._arrays = frozenset(int(array) for array in jobs["ArrayJobID"] if array)
            ours = counted and "node_loads" not in self.command.apart()
            nodes = RecordColumns(self.worker.call("nodes")) if ours else self.command.nodes()
            points = factors.result() if factors else None
            why_down, specs = self.command.why_down(nodes), self.command.specs_of(nodes)
            state = state_of(jobs, nodes, points, self.command.qos, self.command.limits, why_down, specs)
            state = self.command.with_reservations(state, reserved.result())
        return self.command.completed(state)

    def act(self, actions: Sequence[Action]) -> list[ActionResult]:
        """Execute *actions* in order, through pyslurm where it can, else through scontrol."""
        answers: list[ActionResult] = []
        multifactor = self.command.known_facts().multifactor
        calls = {at: self._call(action, multifactor) for at, action in enumerate(actions)}
        for ours, group in groupby(calls, key=lambda at: calls[at] is not None):
            rows = list(group)
            batch = [actions[at] for at in rows]
            if ours:
                words = self.worker.call("act", [calls[at] for at in rows])
                answers += [ActionResult(action, refused) for action, refused in zip(batch, words, strict=True)]
            else:
                answers += self.command.act(batch)
        return answers

    def load(self) -> ControllerLoad:
        """Return the counters of sdiag(1)."""
        return self.command.load()

    def outcomes(self, since_s: float, until_s: float, refused: list[RefusedRecord] | None = None) -> OutcomeTable:
        """Return finished runs from sacct, which is queried for a bounded period at a time."""
        return self.command.outcomes(since_s, until_s, refused)

    def usage(self, since_s: float, until_s: float) -> UsageTable:
        """Return what finished runs used from sacct."""
        return self.command.usage(since_s, until_s)

    def associations(self) -> AssociationTable:
        """Return users and accounts from scontrol."""
        return self.command.associations()

    def forgot(self, job_ids: Sequence[int]) -> bool:
        """Check through scontrol, since pyslurm shows the queue in one message too."""
        return self.command.forgot(job_ids)

    def with_our_comment(self) -> list[int]:
        """Return the ids of jobs whose AdminComment is ours from squeue."""
        return self.command.with_our_comment()

    def past_runs(self, job_ids: Sequence[int], since_s: float) -> OutcomeTable:
        """Return runs of *job_ids* from sacct."""
        return self.command.past_runs(job_ids, since_s)

    def _call(self, action: Action, multifactor: bool) -> tuple[int, str, dict[str, object]] | None:
        """Return the call to pyslurm; None for actions it cannot do, and for arrays, where it would change one task."""
        if job_of(action) in self._arrays or not multifactor:
            return None
        try:
            return call(action)
        except ValueError:
            return None  # the command adapter reports the reason

    def _with_requests(self, jobs: RecordColumns) -> RecordColumns:
        """Add to *jobs* the requests per job, socket, task or GPU, which pyslurm does not report."""
        keys = list(zip(jobs["JobID"], jobs["SubmitTime"], jobs[_PER_NODE], strict=True))
        rows = zip(keys, jobs["State"], jobs["Comment"], strict=True)
        sharing = {key for key, state, comment in rows if state == "PENDING" and _ON_ITS_WAY in comment}
        if sharing or not self._requests.keys() >= set(keys):
            listed = long(self.command.console, "squeue", ["-a", "-t", "all"], _ASKED)
            listed.by_name["tres"] = [_gres_of(text) for text in listed["tres"]]
            by_id = dict(zip(listed["JobID"], zip(*(listed[name] for name in _ASKED[1:]), strict=True), strict=True))
            states = (JOB_STATES.get(text, JobState.OTHER) for text in jobs["State"])
            if any(not state.ended and key[0] not in by_id for state, key in zip(states, keys, strict=True)):
                raise SlurmUnavailable("squeue left out jobs that pyslurm shows")
            nothing = ("",) * (len(_ASKED) - 1)  # for ended jobs that Slurm has forgotten since
            self._requests |= {key: by_id.get(key[0], nothing) for key in keys}
        self._requests = {key: self._requests[key] for key in keys}
        columns = {name: list(jobs[name]) for name in _ASKED[1:]}
        for at, key in enumerate(keys):
            gres, *rest = self._requests[key]
            counted = bool(key[2])  # by pyslurm, on the allocated nodes
            if not counted:
                columns["tres"][at] = ",".join(filter(None, (columns["tres"][at], gres)))
            for name, text in zip(_ASKED[2:], rest, strict=True):
                if not counted or name in _PER_GPU or key in sharing:
                    columns[name][at] = text
        return RecordColumns(jobs.by_name | columns)


def _gres_of(tres: str) -> str:
    """Return the GRES in a TRES text: they stay as requested, while nodes and CPUs may differ once the job runs."""
    return ",".join(part for part in tres.split(",") if part.startswith("gres"))
