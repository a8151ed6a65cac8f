"""Hard rules: the limits on actions, whatever a policy requests. Each rule is a named function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from typing import TypeGuard

import numpy as np

from ..cluster.actions import (
    Action,
    AskToStop,
    Avoid,
    End,
    Hold,
    Move,
    MoveNodes,
    MovePartition,
    Preempt,
    Rank,
    Refusal,
    Release,
    Requeue,
    Resize,
    RestoreSize,
    Resume,
    Rightsize,
    SetAdminComment,
    Share,
    Start,
    StartShared,
    Steer,
    Suspend,
    Unmark,
    Unshare,
    Unsteer,
    job_of,
)
from ..cluster.columns import BoolArray, IntArray
from ..cluster.exclusions import ANY_TYPE
from ..cluster.job_limits import JobLimits, amounts_with
from ..cluster.jobs import JobState, JobTable
from ..cluster.may_have import Allowances
from ..cluster.node_request import NodeRequest, read_request
from ..cluster.state import View
from ..cluster.text.hostlist import expand
from ..cluster.text.plural import count
from .excluded_nodes import among
from .job_nodes import gpus_by_node, node_part, nodes_by_kind, nodes_with_gpus
from .request_sizes import fitting_nodes, share_of, size_refusal, wanted
from .rules import Rules, SharingRules
from .sharing.consent import consent_bars

Rule = Callable[[Action, JobTable, int, Rules], str | None]
"""A function that returns the reason to refuse an action, or None. The row is one of the given job table."""

Joined = Mapping[int, int]
"""The GPUs of each running job, by its id, that jobs of the same plan join."""

PairRule = Callable[[Start, View, Joined, Rules], str | None]
"""A function that returns the reason to refuse a start beside a running job, or None."""

SizeRule = Callable[[Rightsize, View, int, BoolArray, Allowances], str | None]
"""A function that returns the reason to refuse other CPUs and memory of the pending job in a row, or None.

The mask is that of the nodes that the job may use."""

LimitRule = Callable[[Action, View, int, JobLimits], str | None]
"""A function that returns the reason to refuse a change that limits forbid of the pending job in a row, or None."""

NodeRule = Callable[[Action, View, int, Allowances], str | None]
"""A function that returns the reason to refuse a change after which the pending job in a row could never start."""

MoveRule = Callable[[MoveNodes, View, Rules], str | None]
"""A function that returns the reason to refuse a move of nodes, or None."""


def power_is_on(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Refuse any action whose power the admin has not switched on, except to give a job its own partitions back."""
    only_kept_off = isinstance(action, Steer) and action.types == ANY_TYPE
    power = "migrate" if only_kept_off else action.power
    if power in rules.powers or (isinstance(action, MovePartition) and action.gives_back):
        return None
    return f"power.{power} is off"


def a_holding_power_is_on(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Refuse unless a power is on that sets begin times: a hold, or a requeue, which Slurm delays."""
    return None if rules.powers & {"hold", "requeue"} else "power.hold and power.requeue are off"


def migration_is_on(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Refuse to ask a job to leave its nodes without power.migrate."""
    leaves = isinstance(action, AskToStop) and action.leaves
    return "power.migrate is off" if leaves and "migrate" not in rules.powers else None


def owner_did_not_opt_out(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Refuse actions on a job with ``slurmsched:off``, except those that give it back, and the line of load control."""
    if not jobs.off.item(row) or action.gives_back or (isinstance(action, Hold) and rules.admission is not None):
        return None
    return "its owner said slurmsched:off"


def not_interactive(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Refuse to move, stop or requeue an interactive job (salloc, srun, a portal's), or to hold it but in a line."""
    if isinstance(action, Hold) and rules.admission is not None:
        return None
    return "the job is interactive" if jobs.interactive[row] else None


def owner_consented(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Refuse without ``slurmsched:ckpt``: Requeue=1 is Slurm's default and no consent."""
    if not jobs.ckpt[row]:
        return "its owner did not say slurmsched:ckpt"
    return None if jobs.requeueable[row] else "it was submitted with --no-requeue"


def owner_wants_an_early_end(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Refuse to end a job whose owner did not say when (``slurmsched:stop=``, ``busy=``)."""
    says = jobs.stop[row] not in ("", "never") or jobs.busy[row]
    return None if says else "its owner said neither slurmsched:stop= with a rule nor slurmsched:busy="


def not_asked_too_often(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Refuse stop requests to a job beyond the daily limit (``deadline.asks_a_day``)."""
    ask_count = int(jobs.stop_requests[row])
    return (
        f"it was asked to stop {count(ask_count, 'time')} within a day (deadline.asks_a_day)"
        if ask_count >= rules.asks_a_day
        else None
    )


def not_requeued_too_often(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Refuse to stop a job that was requeued as often as the admin allows (``stop.most_requeues``)."""
    many = int(jobs.restarts[row])
    if not rules.most_requeues or many < rules.most_requeues:
        return None
    return f"it was requeued {count(many, 'time')} (stop.most_requeues)"


def job_is_pending(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Refuse to order, hold or move a job that has started."""
    return _in_state(jobs, row, JobState.PENDING)


def job_is_running(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Refuse to stop a job that is not running."""
    return _in_state(jobs, row, JobState.RUNNING)


def job_is_single(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Refuse to suspend tasks of arrays, of which Slurm may take all, and parts of heterogeneous jobs."""
    if jobs.array_job_id[row]:
        return "it is a task of an array"
    return "it is part of a heterogeneous job" if jobs.het_job_id[row] else None


def gpus_are_shared(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Refuse to suspend a job that shares no GPUs: it would keep them, and nobody could use them."""
    return None if jobs.shares[row] else "no job shares its GPUs"


def suspension_is_ours(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Refuse to resume a job that somebody else has suspended."""
    return None if jobs.suspended_s[row] > 0 else "somebody else has suspended it"


def job_is_suspended(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Refuse to resume a job that is not suspended."""
    return _in_state(jobs, row, JobState.SUSPENDED)


def hold_is_ours(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Refuse to change a begin time that a user set."""
    return None if jobs.held_by_us[row] else "its begin time is not ours"


def token_is_ours(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Refuse to change GPU slots that we did not make; our own changes may be finished without power.share."""
    return None if jobs.shares[row] else "we did not make slots of its GPUs"


def type_is_open(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Refuse to steer a job that asks for a type of GPU: another one would leave it without nodes for good."""
    if isinstance(action, Steer) and action.types == ANY_TYPE:
        return None
    return f"it asks for GPUs of type {jobs.gpu_type[row]}" if jobs.gpu_type[row] else None


def nodes_are_open(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Refuse to steer a job whose owner, or an admin, chose nodes: by name, by feature or by a reservation."""
    if jobs.excluded_nodes[row] and not jobs.steered[row]:
        return "somebody else excluded nodes of it"
    for column, what in (
        (jobs.required_nodes, "nodes"),
        (jobs.features, "features"),
        (jobs.reservation, "a reservation"),
    ):
        if column[row]:
            return f"it asks for {what}"
    return None


def type_is_accepted(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Refuse to steer a job to a type that its owner does not accept (``slurmsched:types=``)."""
    accepted = jobs.types[row].split("+") if jobs.types[row] else []
    types = action.types.split("+") if isinstance(action, Steer) else []
    others = [name for name in types if name not in (*accepted, ANY_TYPE)]
    return f"its owner does not accept {others[0]}" if accepted and others else None


def exclusion_is_ours(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Refuse to lift the exclusion of nodes that somebody else wrote."""
    return None if jobs.steered[row] else "the nodes that it excludes are not ours"


def size_is_ours(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Refuse to change back CPUs and memory that are not ours, or to others than its owner's."""
    present, own = jobs.node_request[row], jobs.own_request[row]
    ours = isinstance(action, RestoreSize) and own != "" and (action.before, action.own) == (present, own)
    return None if ours else "its CPUs and memory are not ours"


def nobody_else_sized_it(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Refuse to change CPUs and memory that were not read, or that somebody else has changed since we did."""
    if jobs.request_changed[row]:
        return "somebody changed its CPUs or memory after us"
    present, own = jobs.node_request[row], jobs.own_request[row]
    known = isinstance(action, Rightsize) and present != "" and (action.before, action.own) == (present, own or present)
    return None if known else "its CPUs and memory are not known"


def size_is_its_own(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Refuse to size a job that asks for whole nodes, for amounts per GPU or in a reservation, or that ran before."""
    for is_so, why in (
        (jobs.exclusive[row], "it asks for whole nodes"),
        (jobs.per_gpu[row], "it asks for CPUs or memory per GPU"),
        (jobs.reservation[row], "it asks for a reservation"),
        (jobs.restarts[row], "it ran before"),
    ):
        if is_so:
            return why
    return None


def sizing_is_wanted(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Refuse to size a job without a token of its owner, unless the admin listed its account."""
    if wanted(jobs, rules, slice(row, row + 1))[0]:
        return None
    return "its owner said neither slurmsched:cpus= nor slurmsched:mem=, and rightsize.accounts lacks its account"


def share_is_kept(size: Rightsize, view: View, row: int, nodes: BoolArray, may: Allowances) -> str | None:
    """Refuse to leave a job less than what belongs to its GPUs, or than its owner said, unless they asked for less."""
    own, after = _request(size.own), _request(size.after)
    jobs, count = view.pending, max(int(view.pending.nodes[row]), 1)
    share = share_of(view, may.everywhere(jobs.partition[row]), -(-int(jobs.gpus[row]) // count), nodes)
    pairs = (
        (own.node_cpus(count), after.node_cpus(count), max(share.cpus, int(jobs.cpus_least[row])), "CPUs"),
        (
            own.node_memory_mib(count),
            after.node_memory_mib(count),
            max(share.memory_mib, int(jobs.mem_least_mib[row])),
            "MiB",
        ),
    )
    for was, to, least, unit in pairs:
        if to < was and to < least - 1e-6:
            return f"{to} {unit} on a node are less than {least:g}, which belong to its GPUs or which its owner wants"
    return None


def best_is_kept(size: Rightsize, view: View, row: int, nodes: BoolArray, may: Allowances) -> str | None:
    """Refuse to give a job more than it asks for, except up to what its owner says that it can use."""
    own, after, count = _request(size.own), _request(size.after), max(int(view.pending.nodes[row]), 1)
    jobs = view.pending
    if after.node_cpus(count) > max(own.node_cpus(count), int(jobs.cpus_best[row])):
        return f"{after.node_cpus(count)} CPUs on a node are more than its owner asks for or can use"
    if after.node_memory_mib(count) > max(own.node_memory_mib(count), int(jobs.mem_best_mib[row])):
        return f"{after.node_memory_mib(count)} MiB on a node are more than its owner asks for or can use"
    return None


def nodes_have_it(size: Rightsize, view: View, row: int, nodes: BoolArray, may: Allowances) -> str | None:
    """Refuse what too few nodes may give it: Slurm may take it over, and yet the job never starts (22.05)."""
    many, everywhere = max(int(view.pending.nodes[row]), 1), may.everywhere(view.pending.partition[row])
    after = _request(size.after)
    if not everywhere.takes_as_written(after, many):
        return f"for as much memory Slurm charges more CPUs than {after.node_cpus(many)} (MaxMemPerCPU)"
    fitting = fitting_nodes(everywhere, after, many, nodes)
    return None if fitting >= many else f"of {fitting} nodes that it may use it may have as much, and it needs {many}"


def limits_are_known(action: Action, view: View, row: int, limits: JobLimits) -> str | None:
    """Refuse to send a job elsewhere, or to let it ask for something else, where its limits could not be read."""
    return f"its limits could not be read: {limits.unread}" if limits.unread and needs_limits(action) else None


def limits_are_kept(action: Action, view: View, row: int, limits: JobLimits) -> str | None:
    """Refuse more than a limit of its QOS, its partition's QOS or its association allows, and less than it requires."""
    jobs = view.pending
    if isinstance(action, Resize) and not action.gives_back:
        return limits.refusal(jobs, row, **amounts_with(jobs, row, action.gpus, action.each)) or None
    if isinstance(action, Share):
        return limits.requires_gpus(jobs, row) or None
    if isinstance(action, Rightsize):
        return size_refusal(limits, jobs, row, _request(action.after)) or None
    return None


def nodes_are_left(action: Action, view: View, row: int, may: Allowances) -> str | None:
    """Refuse to exclude nodes of a job where too few others are left of which it may have what it asks for."""
    if not isinstance(action, Steer):
        return None
    jobs, nodes = view.pending, view.nodes
    many = max(int(jobs.nodes[row]), 1)
    others = ~among(nodes.name, action.excluded) & (nodes.gpus_of(jobs.gpu_type[row]) >= -(-jobs.gpus[row] // many))
    if may.enough(jobs.partition[row], many, node_part(jobs, row), others):
        return None
    return f"beside these it may have what it asks for of fewer than {count(many, 'node')}"


def nodes_have_the_gpus(action: Action, view: View, row: int, may: Allowances) -> str | None:
    """Refuse a number of GPUs for which too few nodes have these and may give the job the rest of what it asks for."""
    if not isinstance(action, Resize) or action.gives_back:
        return None
    jobs, (_, many) = view.pending, action.nodes
    kind, allowed = nodes_by_kind(view, jobs.take(np.array([row])))
    able = allowed[kind[0]] & (view.nodes.gpus_of(jobs.gpu_type[row]) >= (action.each or action.gpus))
    if may.enough(jobs.partition[row], many, node_part(jobs, row), able):
        return None
    return f"fewer than {count(many, 'node')} may give it so many GPUs with the rest of what it asks for"


def shared_node_has_it(action: Action, view: View, row: int, may: Allowances) -> str | None:
    """Refuse to send a job to a node for shared GPUs of which it may not have what it asks for."""
    if not isinstance(action, Share):
        return None
    node = among(view.nodes.name, action.node)
    fits = may.enough(action.partition, 1, node_part(view.pending, row, 1), node)
    return None if fits else f"it may not have of {action.node} what it asks for"


def _request(text: str) -> NodeRequest:
    return read_request(text) or NodeRequest(0, 0, 0, 0, False)


def resizing_is_on(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Refuse another number of GPUs without power.resize, and of nodes without resize.nodes; not a job's own one."""
    if action.gives_back:
        return None
    by_nodes = isinstance(action, Resize) and action.each and rules.resizing is not None
    if by_nodes and rules.resizing is not None and not rules.resizing.nodes:
        return "its number of nodes stays as it is: resize.nodes is off"
    return power_is_on(action, jobs, row, rules)


def partitions_are_ours(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Refuse to give a job partitions back that we did not change."""
    if not action.gives_back:
        return None
    ours = isinstance(action, MovePartition) and jobs.own_partition[row] == action.own
    return None if ours else "its partitions are its own"


def gpus_are_its_own(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Refuse to give a job a number of GPUs back that we did not change."""
    if not action.gives_back:
        return None
    return None if isinstance(action, Resize) and jobs.own_gpus[row] == action.own else "its number of GPUs is its own"


def gpus_are_agreed(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Refuse a number of GPUs that a job's owner did not agree to (``slurmsched:gpus=``, ``ckpt``)."""
    if action.gives_back or not isinstance(action, Resize):
        return None
    least, most = int(jobs.least_gpus[row]), int(jobs.most_gpus[row])
    if not most:
        return "its owner did not say slurmsched:gpus="
    return None if least <= action.gpus <= most else f"its owner said gpus={least}-{most}"


def gpus_are_plain(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Refuse to change the GPUs of a job in whose request more depends on their number."""
    if not isinstance(action, Resize):
        return None
    each = int(gpus_by_node(jobs, row))
    if action.each != each or (jobs.nodes[row] > 1 and not each):
        return "it has several nodes or parts"
    if action.each and action.gpus % action.each:
        return f"{action.gpus} GPUs are no whole nodes with {action.each}"
    if jobs.array_job_id[row] or jobs.het_job_id[row]:
        return "it has several nodes or parts"
    if jobs.node_range[row]:
        return f"Slurm gives it {jobs.node_range[row]} nodes, with as many GPUs on each"
    if jobs.per_task[row] or jobs.per_gpu[row]:
        return "it asks for GPUs per task, or for CPUs or memory per GPU"
    return "it shares GPUs, or is about to" if jobs.shares[row] else None


def owner_agreed_to_restarts(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Refuse another number of GPUs without ``slurmsched:ckpt``, unless it is the job's own again."""
    return None if action.gives_back else owner_consented(action, jobs, row, rules)


def _in_state(jobs: JobTable, row: int, wanted: JobState) -> str | None:
    state = jobs.state.item(row)
    return None if state == wanted else f"the job is {JobState(state).name.lower()}, not {wanted.name.lower()}"


def job_is_alone(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Refuse to preempt a job that shares its GPUs: they would not come free."""
    if other := int(jobs.beside[row]):
        return f"it shares its GPUs with job {other}"
    return job_has_no_guest(action, jobs, row, rules)


def job_has_no_guest(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Refuse to move a job beside which others run."""
    return "another job shares its GPUs" if jobs.guest_gpus[row] else None


def sharing_is_on(start: Start, view: View, joined: Joined, rules: Rules) -> str | None:
    """Refuse to let jobs share GPUs without power.share."""
    return None if "share" in rules.powers else "power.share is off"


def host_is_running(start: Start, view: View, joined: Joined, rules: Rules) -> str | None:
    """Refuse to join a job that does not run."""
    row = view.running.row_of(start.beside)
    if row is None:
        return f"job {start.beside} does not run"
    state = int(view.running.state[row])
    return None if state == JobState.RUNNING else f"job {start.beside} is {JobState(state).name.lower()}"


def host_is_alone(start: Start, view: View, joined: Joined, rules: Rules) -> str | None:
    """Refuse to join a job that runs on the GPUs of another: a GPU has two jobs at most."""
    other = int(view.running.beside[_row(view.running, start.beside)])
    return f"job {start.beside} shares its GPUs with job {other}" if other else None


def host_has_open_gpus(start: Start, view: View, joined: Joined, rules: Rules) -> str | None:
    """Refuse to join a job that has too few GPUs without a second job: a GPU has two jobs at most."""
    row, mine = _row(view.running, start.beside), int(view.pending.gpus[_row(view.pending, start.job_id)])
    left = int(view.running.gpus[row] - view.running.guest_gpus[row]) - joined.get(start.beside, 0)
    return None if mine <= left else f"{left} of the GPUs of job {start.beside} are without a second job, it has {mine}"


def host_has_as_many_gpus(start: Start, view: View, joined: Joined, rules: Rules) -> str | None:
    """Refuse to let jobs with different numbers of GPUs share, unless wider jobs may be joined."""
    mine = int(view.pending.gpus[_row(view.pending, start.job_id)])
    its = int(view.running.gpus[_row(view.running, start.beside)])
    if mine == its or (rules.sharing is not None and rules.sharing.wide):
        return None
    return f"it has {count(mine, 'GPU')}, and job {start.beside} has {its}"


def host_is_on_one_node(start: Start, view: View, joined: Joined, rules: Rules) -> str | None:
    """Refuse to join a job on several nodes."""
    nodes = expand(view.running.node_list[_row(view.running, start.beside)])
    return None if len(nodes) == 1 else f"job {start.beside} runs on {count(len(nodes), 'node')}"


def owners_let_share(start: Start, view: View, joined: Joined, rules: Rules) -> str | None:
    """Refuse to let a job share whose owner, or the settings, do not let it."""
    limits = rules.sharing or SharingRules()
    for jobs, job_id in ((view.pending, start.job_id), (view.running, start.beside)):
        bars = consent_bars(jobs.take(np.array([_row(jobs, job_id)])), limits)
        if reason := next((words for holds, words in bars if holds[0]), ""):
            return f"job {job_id} does not share: {reason}"
    return None


def _row(jobs: JobTable, job_id: int) -> int:
    return int(np.flatnonzero(jobs.job_id == job_id)[0])


def lending_is_on(move: MoveNodes, view: View, rules: Rules) -> str | None:
    """Refuse to move nodes without power.nodes, except to give all of them back."""
    return None if move.power in rules.powers or _gives_nodes_back(move) else f"power.{move.power} is off"


def partition_is_known(move: MoveNodes, view: View, rules: Rules) -> str | None:
    """Refuse to change a partition that Slurm does not show."""
    unknown = [one.partition for one in move.partitions if one.partition not in view.partitions.name.names]
    return f"there is no partition {unknown[0]}" if unknown else None


def partition_keeps_nodes(move: MoveNodes, view: View, rules: Rules) -> str | None:
    """Refuse to leave a partition without nodes."""
    empty = [one.partition for one in move.partitions if not one.after]
    return f"the partition {empty[0]} would have no nodes" if empty else None


def partitions_are_apart(move: MoveNodes, view: View, rules: Rules) -> str | None:
    """Refuse to lend nodes between partitions that have some in common: it is open whose they are."""
    names = [name for one in move.partitions for name in expand(one.own)]
    apart = len(set(names)) == len(names) or _gives_nodes_back(move)
    return None if apart else f"{' and '.join(one.partition for one in move.partitions)} have nodes in common"


def node_is_known(move: MoveNodes, view: View, rules: Rules) -> str | None:
    """Refuse to name a node that Slurm does not show: Slurm 22.05 would drop other nodes with it."""
    unknown = _named(move) - set(view.nodes.name)
    return f"Slurm shows no node {min(unknown)}" if unknown else None


def node_keeps_partition(move: MoveNodes, view: View, rules: Rules) -> str | None:
    """Refuse to take a node out of its last partition."""
    before = {name for one in move.partitions for name in expand(one.before)}
    lost = (before & set(view.nodes.name)) - _named(move)
    return f"the node {min(lost)} would be in none of the partitions" if lost else None


def promised_job_keeps_nodes(move: MoveNodes, view: View, rules: Rules) -> str | None:
    """Refuse to take nodes out of the partitions of a waiting job with an open promise, which counts on them."""
    if _gives_nodes_back(move):
        return None
    promised = np.isin(view.pending.job_id, view.promises.job_id[view.promises.open])
    for names in sorted(set(view.pending.partition.take(promised))):
        own = [one for one in move.partitions if one.partition in names.split(",")]
        after = {name for one in own for name in expand(one.after)}
        if lost := {name for one in own for name in expand(one.before)} - after:
            return f"a promised job waits for the nodes of {names}, the node {min(lost)} too"
    return None


def _named(move: MoveNodes) -> set[str]:
    return {name for one in move.partitions for name in expand(one.after)}


def _gives_nodes_back(move: MoveNodes) -> bool:
    return all(one.after == one.own for one in move.partitions)


RULES: dict[type[Action], tuple[Rule, ...]] = {
    Rank: (power_is_on, job_is_pending, owner_did_not_opt_out),
    Hold: (power_is_on, job_is_pending, owner_did_not_opt_out, not_interactive),
    Release: (a_holding_power_is_on, job_is_pending, hold_is_ours),
    MovePartition: (
        power_is_on,
        job_is_pending,
        owner_did_not_opt_out,
        not_interactive,
        partitions_are_ours,
    ),
    Requeue: (
        power_is_on,
        job_is_running,
        owner_did_not_opt_out,
        not_interactive,
        owner_consented,
        not_requeued_too_often,
    ),
    AskToStop: (
        power_is_on,
        migration_is_on,
        job_is_running,
        owner_did_not_opt_out,
        not_interactive,
        owner_consented,
        not_asked_too_often,
        not_requeued_too_often,
    ),
    End: (power_is_on, job_is_running, owner_did_not_opt_out, owner_wants_an_early_end),
    SetAdminComment: (power_is_on, owner_did_not_opt_out),
    Suspend: (
        power_is_on,
        job_is_running,
        owner_did_not_opt_out,
        not_interactive,
        job_is_single,
        gpus_are_shared,
    ),
    Resume: (job_is_suspended, suspension_is_ours),
    Steer: (
        power_is_on,
        job_is_pending,
        owner_did_not_opt_out,
        not_interactive,
        type_is_open,
        nodes_are_open,
        type_is_accepted,
    ),
    Unsteer: (job_is_pending, exclusion_is_ours),
    Rightsize: (
        power_is_on,
        job_is_pending,
        owner_did_not_opt_out,
        not_interactive,
        nobody_else_sized_it,
        size_is_its_own,
        sizing_is_wanted,
    ),
    RestoreSize: (job_is_pending, size_is_ours),
    Resize: (
        resizing_is_on,
        job_is_pending,
        owner_did_not_opt_out,
        not_interactive,
        owner_agreed_to_restarts,
        gpus_are_its_own,
        gpus_are_agreed,
        gpus_are_plain,
    ),
    Avoid: (job_is_pending,),
    Share: (power_is_on, job_is_pending, owner_did_not_opt_out, not_interactive),
    StartShared: (token_is_ours, job_is_pending),
    Unmark: (token_is_ours, job_is_pending),
    Unshare: (token_is_ours, job_is_pending),
    Start: (power_is_on, job_is_pending),
    Preempt: (power_is_on, job_is_running, job_is_alone),
    Move: (power_is_on, job_is_running, job_has_no_guest),
}
"""The rules of each action on a job; the first one that refuses gives the reason."""

PAIR_RULES: tuple[PairRule, ...] = (
    sharing_is_on,
    host_is_running,
    host_is_alone,
    host_has_as_many_gpus,
    host_has_open_gpus,
    host_is_on_one_node,
    owners_let_share,
)
"""The further rules of starts beside a running job."""

SIZE_RULES: tuple[SizeRule, ...] = (share_is_kept, best_is_kept, nodes_have_it)
"""The further rules of other CPUs and memory, for which the nodes count."""

LIMIT_RULES: tuple[LimitRule, ...] = (limits_are_known, limits_are_kept)
"""The further rules of changes of what a pending job asks for, and of the nodes that it is left."""

NODE_RULES: dict[type[Action], NodeRule] = {
    Steer: nodes_are_left,
    Resize: nodes_have_the_gpus,
    Share: shared_node_has_it,
}
"""The further rules of changes that leave a job other nodes, or ask for other ones."""

ASKS_ANEW: frozenset[type[Action]] = frozenset({Steer, Rightsize, Resize, Share})
"""The changes after which a pending job asks for something else, or for other nodes."""

MOVE_RULES: tuple[MoveRule, ...] = (
    lending_is_on,
    partition_is_known,
    partition_keeps_nodes,
    partitions_are_apart,
    node_is_known,
    node_keeps_partition,
    promised_job_keeps_nodes,
)
"""The rules of moves of nodes, which concern no job."""


UNKNOWN_JOB = "job_is_known"
"""The name of the rule over every action on a job: Slurm knows it. Others have the names of their functions."""


def needs_limits(action: Action) -> bool:
    """Return whether an action sends a job to a type, or lets it ask for something else than its owner did."""
    if isinstance(action, Steer):
        return action.types != ANY_TYPE
    return isinstance(action, Rightsize | Resize) and not action.gives_back


def judge(wishes: Sequence[Action], view: View, rules: Rules) -> tuple[list[Action], list[Refusal]]:
    """Split wishes into allowed actions and refusals; both keep the given order."""
    allowed: list[Action] = []
    refusals: list[Refusal] = []
    if not wishes:
        return allowed, refusals
    joined: dict[int, int] = {}
    places = _rows(wishes, view)
    nodes, may = _nodes_of_sized(wishes, places, view), Allowances(view.nodes, view.partitions)
    limits = JobLimits(view.limits, view.partitions)
    for wish, place in zip(wishes, places, strict=True):
        refusal = None
        if place is None:
            refusal = _of_move(wish, view, rules)
        else:
            jobs, row = place
            for rule in RULES[type(wish)]:  # not in a function of its own: a cold start has thousands of wishes
                if (why := rule(wish, jobs, row, rules)) is not None:
                    refusal = Refusal(wish, rule.__name__, why)
                    break
        if refusal is None and type(wish) in ASKS_ANEW and _waits(place, view):
            row = place[1]
            refusal = _of_size(wish, view, row, nodes[wish.job_id], may) if isinstance(wish, Rightsize) else None
            refusal = refusal or _of_limits(wish, view, row, limits) or _of_nodes(wish, view, row, may)
        elif refusal is None and type(wish) is Start and wish.beside:
            refusal = _of_pair(wish, view, joined, rules)
        if refusal is None:
            allowed.append(wish)
        else:
            refusals.append(refusal)
    return allowed, refusals


def _of_pair(start: Start, view: View, joined: dict[int, int], rules: Rules) -> Refusal | None:
    for rule in PAIR_RULES:
        why = rule(start, view, joined, rules)
        if why is not None:
            return Refusal(start, rule.__name__, why)
    mine = int(view.pending.gpus[_row(view.pending, start.job_id)])
    joined[start.beside] = joined.get(start.beside, 0) + mine
    return None


def _nodes_of_sized(
    wishes: Sequence[Action], places: Sequence[tuple[JobTable, int] | None], view: View
) -> dict[int, BoolArray]:
    """Return the nodes that each pending job may use that is to be sized, by its id."""
    pairs = zip(wishes, places, strict=True)
    sized = [(wish.job_id, place[1]) for wish, place in pairs if isinstance(wish, Rightsize) and _waits(place, view)]
    if not sized:
        return {}
    jobs, rows = zip(*sized, strict=True)
    return dict(zip(jobs, nodes_with_gpus(view, np.array(rows, dtype=np.int64)), strict=True))


def _waits(place: tuple[JobTable, int] | None, view: View) -> TypeGuard[tuple[JobTable, int]]:
    return place is not None and place[0] is view.pending


def _of_nodes(wish: Action, view: View, row: int, may: Allowances) -> Refusal | None:
    rule = NODE_RULES.get(type(wish))
    why = None if rule is None else rule(wish, view, row, may)
    return None if rule is None or why is None else Refusal(wish, rule.__name__, why)


def _of_limits(wish: Action, view: View, row: int, limits: JobLimits) -> Refusal | None:
    for rule in LIMIT_RULES:
        why = rule(wish, view, row, limits)
        if why is not None:
            return Refusal(wish, rule.__name__, why)
    return None


def _of_size(size: Rightsize, view: View, row: int, nodes: BoolArray, may: Allowances) -> Refusal | None:
    for rule in SIZE_RULES:
        why = rule(size, view, row, nodes, may)
        if why is not None:
            return Refusal(size, rule.__name__, why)
    return None


def _of_move(move: Action, view: View, rules: Rules) -> Refusal | None:
    if not isinstance(move, MoveNodes):
        return Refusal(move, UNKNOWN_JOB, "Slurm knows no such job")
    for rule in MOVE_RULES:
        why = rule(move, view, rules)
        if why is not None:
            return Refusal(move, rule.__name__, why)
    return None


def _rows(wishes: Sequence[Action], view: View) -> list[tuple[JobTable, int] | None]:
    """Return the table and row of each wish's job, None if it is in neither; pending wins over running."""
    ids = list(map(job_of, wishes))
    wanted = np.unique(np.array(ids, dtype=np.int64))
    places: dict[int, tuple[JobTable, int]] = {}
    for jobs in (view.running, view.pending):
        rows = _rows_of(wanted, jobs)
        places |= zip(jobs.job_id[rows].tolist(), zip(repeat(jobs), rows.tolist()), strict=True)
    return list(map(places.get, ids))


def _rows_of(wanted: IntArray, jobs: JobTable) -> IntArray:
    """Return the rows of jobs whose ids are in *wanted*, a sorted array."""
    if not len(wanted):
        return np.zeros(0, dtype=np.int64)
    at = np.minimum(np.searchsorted(wanted, jobs.job_id), len(wanted) - 1)
    rows: IntArray = np.flatnonzero(wanted[at] == jobs.job_id)
    return rows
