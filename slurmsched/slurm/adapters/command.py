"""The adapter over Slurm's own commands and their text output: works with every release, needs no library."""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np

from ...clock import Timer
from ...cluster.actions import (
    Action,
)
from ...cluster.columns import table_of
from ...cluster.exclusions import UNREAD
from ...cluster.limits import NO_LIMITS, LimitTable, unread_limits
from ...cluster.nodes import QosTable
from ...cluster.portal_sessions import with_sessions
from ...cluster.reasons import Reason, ReasonKind, Whose, reason_of
from ...cluster.records.associations import NO_ASSOCIATIONS, AssociationTable
from ...cluster.records.outcomes import OutcomeTable, RefusedRecord
from ...cluster.records.usage import NO_USAGE, UsageTable
from ...cluster.state import ClusterState
from ...cluster.topology import FLAT, Topology
from ...errors import SlurmError, SlurmRefused, SlurmUnavailable
from ..port import (
    RIGHTS,
    ActionResult,
    ClusterInfo,
    ControllerLoad,
    counts_memory,
    hides_associations,
    holds_to_limits,
    keeps_jobs_private,
    starts_safely,
)
from ..read import sinfo, sprio, squeue
from ..read.associations import read_associations
from ..read.cluster_reading import state_of
from ..read.limits import read_shared_limits
from ..read.node_specs import NodeSpec, future_nodes, read_specs
from ..read.partitions import PartitionLimits, read_limits
from ..read.records import RecordColumns, cut
from ..read.reservations import SHOW, ReservationReader
from ..read.sacct import read_outcomes, read_runs
from ..read.topology import SHOW as TOPOLOGY
from ..read.topology import TopologyRequests, is_flat, read_topology
from ..read.usage import read_usage
from ..versions import UNKNOWN_JOB, SlurmRelease
from ..write.verbs import MARK
from .command_runner import CommandRunner, mark, unreachable
from .command_writer import CommandWriter, send
from .job_queries import exclusions, long, of_arrays_too, request_columns
from .rights import read_qos, users_with_all_rights, with_permissions, with_rights

logger = logging.getLogger(__name__)

TOPOLOGY_EVERY_S = 600.0
"""The time after which the topology is read again, since a reconfigure may not show."""

PARTITIONS = ["scontrol", "--all", "--oneliner", "show", "partition"]
PARTITIONS_EVERY_S = 20.0
"""The time after which partitions are read again."""

LIMITS_EVERY_S = 60.0
LIMITS_RETRY_S = 300.0  #: after a failure: slurmdbd may take its whole time limit to fail again


def _nothing() -> Set[str]:
    """Return nothing: most of it needs a command more in each observation."""
    return frozenset()


@dataclass
class SlurmCommand:
    """The ``Slurm`` port over squeue, sprio, sinfo, scontrol, sdiag and sacct."""

    console: CommandRunner = field(default_factory=CommandRunner)
    _facts: ClusterInfo | None = None
    _fields: tuple[str, ...] = squeue.FIELDS
    qos: QosTable = field(default_factory=lambda: table_of(QosTable, 0, {}, {}))
    limits: Mapping[str, PartitionLimits] = field(default_factory=dict)
    specs: Mapping[str, NodeSpec] = field(default_factory=dict)
    _shared_limits: LimitTable = NO_LIMITS
    _limits_wait: Timer = field(default_factory=lambda: Timer(time.monotonic))
    _limits_soon: bool = False
    _reservations: ReservationReader = field(default_factory=ReservationReader)
    apart: Callable[[], Set[str]] = field(default=_nothing)
    """What to read because somebody needs it: excluded_nodes, node_request and node_range, node_loads, and limits.

    The first takes a command of its own, and the next two together another one.

    With both loads and excluded nodes, the latter are read of running jobs too.
    """
    interactive_names: tuple[str, ...] = ()  #: of batch jobs that are sessions of a portal
    _future: frozenset[str] = frozenset()
    _shown: frozenset[str] = frozenset()  #: nodes in the last observation
    _partitions: str = ""  #: what was said of partitions last
    _partitions_wait: Timer = field(default_factory=lambda: Timer(time.monotonic))
    _topology: Topology = FLAT
    _topology_of: Mapping[str, str] = field(default_factory=dict)  #: the configuration under which it was read
    _topology_wait: Timer = field(default_factory=lambda: Timer(time.monotonic))
    _topology_requests: TopologyRequests = field(default_factory=TopologyRequests)

    def facts(self) -> ClusterInfo:
        """Read anew the cluster's description and our rights on it."""
        earlier, config = self._facts, self._config()
        self._facts = ClusterInfo(
            cluster=config.get("ClusterName", ""),
            version=SlurmRelease.of(config).version,
            config=config,
            user=self.console.user(),
            federation=self._read_federation(config),
            gres=self._read_gres() if "slot" in config.get("GresTypes", "").split(",") else {},
        )
        self._facts = with_rights(self.console, self._facts, earlier)
        self.qos = read_qos(self.console, self._facts, self.qos)
        partitions = self.console.query(PARTITIONS)
        self._facts = with_permissions(self.console, self._facts, partitions, earlier)
        self._take_partitions(partitions, config)
        self._fields = squeue.fields_of(self._release_of_commands(self._facts))
        self._read_topology(self._facts)
        return self._facts

    def _read_topology(self, facts: ClusterInfo) -> None:
        """Read the topology at the start, after the configuration has changed, and every ``TOPOLOGY_EVERY_S``.

        From 23.11 on a reconfigure changes BOOT_TIME; before that nothing shows one.
        """
        plugin = facts.config.get("TopologyPlugin", "")
        has_one = not is_flat(plugin) or SlurmRelease(facts.version).can("topology_yaml")
        config = {name: value for name, value in facts.config.items() if name != "NEXT_JOB_ID"}
        if not has_one:
            self._topology = FLAT
        elif config != self._topology_of or self._topology_wait.due:
            try:
                self._topology, self._topology_of = read_topology(self.console.query(TOPOLOGY)), config
                self._topology_wait.put_off(TOPOLOGY_EVERY_S)
            except SlurmError as error:
                logger.warning("the topology of the network is not known now: %s", error)

    def observe(self) -> ClusterState:
        """Read the whole queue, the priority factors and the nodes."""
        facts = self.known_facts()
        with ThreadPoolExecutor(2) as beside:  # squeue takes by far the longest
            nodes = beside.submit(self.nodes)
            factors = beside.submit(self.factors) if facts.multifactor else None
            reserved = beside.submit(self.reserved)
            jobs = self.with_optional_columns(long(self.console, "squeue", ["-a", "-t", "all"], self._fields))
            records, points = nodes.result(), factors.result() if factors else None
            specs = self.specs_of(records)
            state = state_of(jobs, records, points, self.qos, self.limits, self.why_down(records), specs)
            state = self.with_reservations(state, reserved.result())
        return self.completed(state)

    def reserved(self) -> str:
        """Return what Slurm says of all reservations."""
        return self.console.query(SHOW)

    def with_reservations(self, state: ClusterState, text: str) -> ClusterState:
        """Add the windows of reservations in *text* to *state*."""
        return replace(state, reservations=self._reservations.read(text, state.nodes))

    def completed(self, state: ClusterState) -> ClusterState:
        """Add to *state* what is read apart, and which jobs are sessions of a portal."""
        pending, running, ended = (
            with_sessions(jobs, self.interactive_names) for jobs in (state.pending, state.running, state.ended)
        )
        if self._topology.levels:
            requests = self._topology_requests
            requests.forget_all_but((pending, running))
            pending, running = (requests.filled(jobs, self._shown_job) for jobs in (pending, running))
        state = replace(state, pending=pending, running=running, ended=ended, topology=self._topology)
        return self.with_shared_limits(state)

    def _shown_job(self, argv: Sequence[str]) -> str:
        """Return what scontrol says of one job; nothing where Slurm no longer has it."""
        try:
            return self.console.query(argv)
        except SlurmRefused:
            return ""

    def with_shared_limits(self, state: ClusterState) -> ClusterState:
        """Add limits to *state* where Slurm holds jobs to them, or one blocks a pending job.

        They are read every ``LIMITS_EVERY_S`` where one blocks a job, a power needs them or one is used up with time,
        else, for the answers to users, every ``LIMITS_RETRY_S``. Where they cannot be read, the table says so until the
        next attempt: no observation fails for want of them.
        """
        facts = self.known_facts()
        holds = holds_to_limits(facts.config)
        reasons = state.pending.reason
        blocks = reasons.map([reason_of(text).kind is ReasonKind.LIMIT for text in reasons.names], np.bool_)
        array = reasons.map([_of_array(reason_of(text)) for text in reasons.names], np.bool_)
        blocked = bool((blocks & ~array).any())
        if not holds and not blocked:
            return state
        soon = blocked or "limits" in self.apart() or self._shared_limits.has_minutes
        if self._limits_wait.due or (soon and not self._limits_soon):
            self._limits_soon = soon
            self._limits_wait.put_off(LIMITS_EVERY_S if soon else LIMITS_RETRY_S)
            try:
                self._shared_limits = self._read_limits(facts)
            except SlurmError as error:
                logger.warning("limits are not known now: %s", error)
                self._shared_limits = unread_limits(str(error)[:300])
                self._limits_wait.put_off(LIMITS_RETRY_S)
        return replace(state, limits=self._shared_limits)

    def _read_limits(self, facts: ClusterInfo) -> LimitTable:
        """Return all limits; SlurmError where they cannot be read, or only our own."""
        if facts.accounting and hides_associations(facts.config) and facts.admin_level not in RIGHTS:
            raise SlurmRefused(f"under PrivateData=users {facts.user} may not see the limits of other users")
        safe = starts_safely(facts.config)
        return read_shared_limits(self.console.query, facts.cluster, accounting=facts.accounting, safe=safe)

    def with_optional_columns(self, jobs: RecordColumns) -> RecordColumns:
        """Add to *jobs* the columns of pending ones that somebody needs, and with loads those of running ones.

        They are read last: of a job that came since, nothing is decided yet. One that is not there any more has UNREAD
        for its excluded nodes, its CPUs and memory.
        """
        wanted, columns = self.apart(), {}
        if "excluded_nodes" in wanted:
            states = {"PENDING": "PD", "RUNNING": "R"} if "node_loads" in wanted else {"PENDING": "PD"}
            columns["excluded_nodes"] = _apart(
                jobs, states, exclusions(self.console, ["-t", ",".join(states.values())]), UNREAD
            )
        if parts := [(name, of) for name, of in squeue.REQUESTED if name in wanted]:
            shown = request_columns(self.console, ["-t", "PD"])
            for name, of in parts:
                gone = UNREAD if name == "node_request" else ""
                columns[name] = _apart(jobs, {"PENDING"}, of_arrays_too(shown, of(shown)), gone)
        return RecordColumns(jobs.by_name | columns)

    def act(self, actions: Sequence[Action]) -> list[ActionResult]:
        """Send *actions* to Slurm; a complaint about one job does not affect the others."""
        return CommandWriter(self.console, lambda: self.known_facts().multifactor).act(actions)

    def load(self) -> ControllerLoad:
        """Return the counters of sdiag(1) over all message types."""
        text = self.console.query(["sdiag"])
        section = text.partition("Remote Procedure Call statistics by message type")[2].partition("statistics by user")[
            0
        ]
        if not section:
            raise SlurmUnavailable("sdiag printed something that is not its answer")
        calls = re.findall(r"count:(\d+)\s+ave_time:\d+\s+total_time:(\d+)", section)
        count, total_s = sum(int(c) for c, _ in calls), sum(int(t) for _, t in calls) / 1e6
        queue = re.search(r"Agent queue size:\s*(\d+)", text)
        clock = re.search(r"^sdiag output at .*\((\d{1,12})\)$", text, re.MULTILINE)
        return ControllerLoad(
            rpc_mean_s=total_s / count if count else 0.0,
            rpc_count=count,
            rpc_total_s=total_s,
            agent_queue=int(queue.group(1)) if queue else 0,
            now_s=float(clock.group(1)) if clock else math.nan,
        )

    def outcomes(self, since_s: float, until_s: float, refused: list[RefusedRecord] | None = None) -> OutcomeTable:
        """Finished runs from sacct; empty where the site keeps no accounting."""
        if not self.known_facts().accounting:
            since_s = until_s
        runs, bad = read_outcomes(self.console.query, since_s, until_s, mark())
        if refused is not None:
            refused += bad
        return runs

    def usage(self, since_s: float, until_s: float) -> UsageTable:
        """Return what finished runs used from sacct; nothing where the site keeps no accounting."""
        if not self.known_facts().accounting:
            return NO_USAGE
        return read_usage(self.console.query, since_s, until_s, mark())

    def associations(self) -> AssociationTable:
        """Return those that slurmctld knows; none where it shows us our own alone."""
        facts = self.known_facts()
        if not facts.accounting or (hides_associations(facts.config) and facts.admin_level not in RIGHTS):
            return NO_ASSOCIATIONS
        return read_associations(self.console.query)

    def past_runs(self, job_ids: Sequence[int], since_s: float) -> OutcomeTable:
        """Runs of *job_ids* by sacct; none where the site keeps no accounting."""
        wanted = job_ids if self.known_facts().accounting else ()
        return read_runs(self.console.query, wanted, since_s, mark())

    def with_our_comment(self) -> list[int]:
        """Return the ids of jobs whose AdminComment is ours; of one that completes it can no longer be changed."""
        shown = long(self.console, "squeue", ["-a", "-t", "PD,CF,R,S"], ("JobID", "admin_comment"))
        return [int(job) for job, text in zip(*shown.by_name.values(), strict=True) if text.startswith(MARK)]

    def forgot(self, job_ids: Sequence[int]) -> bool:
        """Request each job from one scontrol and count its denials: users can forge texts of jobs, but not denials.

        Raises SlurmUnavailable where Slurm hides the jobs of other users from us, since it denies those in any case.
        """
        if not job_ids:
            return True
        if not self._denied(job_ids):
            return False
        # Once more: the right may have come back after the denials, and before this look at it.
        return not self._demand_sight() or self._denied(job_ids)

    def _denied(self, job_ids: Sequence[int]) -> bool:
        printed = send(self.console, [f"show job {job_id}" for job_id in job_ids])
        if unreachable(printed.err):
            raise SlurmUnavailable("scontrol: slurmctld does not answer")
        return printed.err.count(UNKNOWN_JOB) == len(job_ids)

    def _demand_sight(self) -> bool:
        """Return whether it takes a right to see others' jobs; SlurmUnavailable where we lack it.

        slurmctld answers that without slurmdbd.
        """
        config, user = self._config(), self.known_facts().user
        if not keeps_jobs_private(config) or user in users_with_all_rights(config):
            return False
        shown = self.console.run(["scontrol", "show", "assoc_mgr", f"users={user}", "flags=users"])
        if unreachable(shown.err):
            raise SlurmUnavailable("scontrol: slurmctld does not answer")
        level = re.search(rf"^UserName={re.escape(user)}\(.* AdminLevel=(\w+)\s*$", shown.out, re.MULTILINE)
        if level is None or level[1] == "None":
            raise SlurmUnavailable(
                f"under PrivateData=jobs {user} may not see the jobs of other users: "
                f"sacctmgr modify user {user} set adminlevel=Operator"
            )
        return True

    def known_facts(self) -> ClusterInfo:
        """Return the last description of the cluster; read it if there is none yet."""
        return self._facts or self.facts()

    def nodes(self) -> RecordColumns:
        """Return sinfo's records of nodes and partitions."""
        return long(
            self.console, "sinfo", ["-a", "-N"], (*sinfo.FIELDS, *(sinfo.LOADS if "node_loads" in self.apart() else ()))
        )

    def why_down(self, nodes: RecordColumns) -> RecordColumns | None:
        """Return sinfo's records about nodes that take no jobs; None while all do."""
        return long(self.console, "sinfo", ["-a", "-N"], sinfo.WHY_DOWN) if sinfo.takes_no_jobs(nodes) else None

    def specs_of(self, nodes: RecordColumns) -> Mapping[str, NodeSpec]:
        """Return what nodes keep for themselves; read anew, with the limits of partitions, where other nodes are shown.

        Both are read anew every ``PARTITIONS_EVERY_S``, too: new nodes of a cloud may not be shown.
        """
        shown = frozenset(nodes["NodeList"])
        others = bool(self._shown) and shown != self._shown
        self._shown = shown
        if others or not self.specs.keys() >= shown or self._partitions_wait.due:
            self._take_partitions(self.console.query(PARTITIONS), self.known_facts().config, others=others)
        return self.specs

    def _take_partitions(self, text: str, config: Mapping[str, str], *, others: bool = True) -> None:
        """Take what Slurm says of its partitions; nodes are read anew for other ones, or where partitions changed."""
        if others or text != self._partitions or not self.specs.keys() >= self._shown:
            self.specs = self._read_specs(config)
            self.limits, self._partitions = read_limits(text, config, self._future), text
        self._partitions_wait.put_off(PARTITIONS_EVERY_S)

    def _read_specs(self, config: Mapping[str, str]) -> dict[str, NodeSpec]:
        """Return what each node keeps for itself; memory that Slurm does not count is no node's own (22.05)."""
        text = self.console.query(["scontrol", "--all", "--future", "--oneliner", "show", "node"])
        specs, self._future = read_specs(text), future_nodes(text)
        if counts_memory(config):
            return specs
        return {name: spec._replace(kept_mib=0) for name, spec in specs.items()}

    def _config(self) -> dict[str, str]:
        """Return the settings that ``scontrol show config`` prints, by name."""
        config = dict(_settings(self.console.query(["scontrol", "show", "config"])))
        if not {"ClusterName", "SLURM_VERSION"} <= config.keys():
            raise SlurmUnavailable("scontrol printed something that is not the configuration of slurmctld")
        return config

    def _read_federation(self, config: Mapping[str, str]) -> str:
        """Return the name of the federation that this cluster is in; empty for none. Only slurmdbd can make one."""
        if not config.get("AccountingStorageType", "").endswith("slurmdbd"):
            return ""
        shown = self.console.query(["scontrol", "show", "federation"])
        found = re.match(r"Federation:\s*(\S+)", shown)
        return found[1] if found else ""

    def _read_gres(self) -> dict[str, str]:
        records = long(self.console, "sinfo", ["-a", "-N"], ("NodeList", "Gres"))
        return dict(zip(records["NodeList"], records["Gres"], strict=True))

    def factors(self) -> RecordColumns:
        """Return sprio's records of pending jobs."""
        field_mark, record_mark = mark(), mark()
        fields = tuple(sprio.FIELDS)
        text = self.console.query(["sprio", "-o", field_mark.join(fields) + record_mark])
        return cut("sprio", text, fields, "JobID", field_mark, record_mark)

    def _release_of_commands(self, facts: ClusterInfo) -> SlurmRelease:
        """Return the release of the installed commands; slurmctld is updated first and may be newer."""
        match = re.match(r"slurm\S* (\d+)\.(\d+)", self.console.query(["scontrol", "--version"]))
        return SlurmRelease((int(match[1]), int(match[2])) if match else facts.version)


def _apart(jobs: RecordColumns, wanted: Collection[str], found: Mapping[str, str], gone: str) -> list[str]:
    """Return the text of each job in a *wanted* state, *gone* where nothing was *found*; empty for the others."""
    rows = zip(jobs["JobID"], jobs["State"], strict=True)
    return [found.get(job, gone) if state in wanted else "" for job, state in rows]


def _settings(text: str) -> list[tuple[str, str]]:
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return [(name.strip(), "" if value.strip() == "(null)" else value.strip()) for name, _, value in pairs]


def _of_array(reason: Reason) -> bool:
    """Report whether the limit of a reason is one that the queue itself shows."""
    return reason.limit is not None and reason.limit.whose is Whose.ARRAY
