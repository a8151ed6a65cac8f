"""What sbatch and slurmctld check of a new job apart from its size: whose it is, its deadline, its signal."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from datetime import tzinfo

from .nodes import PartitionTable
from .permissions import Permissions
from .sbatch_request import SbatchRequest
from .text.hostlist import expand
from .text.sbatch_releases import raises_preempted
from .text.sbatch_values import limit_s, refuse, submission_failed
from .text.slurm_time import begin_s

_ON_RESULTS = re.compile(r"(?:afterok|afternotok)((?::[0-9_*+]+)+)", re.IGNORECASE)
_NAMED = 3
_INVALID_LIMIT = "Requested time limit is invalid (missing or exceeds some limit)"


def check_owner(options: Mapping[str, str], user: str) -> None:
    """Refuse a job under other ids than those of its *user*, unless that is root."""
    for name in ("uid", "gid"):
        if name in options and user != "root":
            refuse(f"--{name} only permitted by root user")


def check_deadline(
    options: Mapping[str, str], starts_s: float, limited_s: float, permissions: Permissions, now_s: float, zone: tzinfo
) -> None:
    """Refuse a --deadline before which a job with the limit *limited_s* cannot end, as releases since 24.11 do.

    Older ones refuse a moment that has passed, and cancel the job later.
    """
    if "deadline" not in options:
        return
    deadline_s = begin_s(options["deadline"], now_s, zone)
    if deadline_s < min(now_s, starts_s) - 1:
        submission_failed(f"{_INVALID_LIMIT}: the --deadline has passed")
    if starts_s > max(deadline_s, now_s):
        refuse("Incompatible begin and deadline time specification")
    least_s = limit_s(options["time-min"]) if "time-min" in options else limited_s
    newer = all(release.sizes.newer_values for release in permissions.releases)
    if newer and max(starts_s, now_s) + least_s > deadline_s + 1:
        submission_failed(f"{_INVALID_LIMIT}: the job's limit does not fit before its --deadline")


def doubts_by_site(options: Mapping[str, str], permissions: Permissions) -> Iterator[str]:
    """Yield what releases and settings decide otherwise elsewhere; refuse a signal that has no occasion here."""
    found = (part for release in permissions.releases for part in release.sizes.options.doubts(options))
    yield from dict.fromkeys(found)
    newer = [release.sizes.newer_values for release in permissions.releases]
    if raises_preempted(options) and any(newer) and not permissions.preempts_by:
        if all(newer):
            submission_failed("Preemption is required but is disabled on this system (--signal=R:...)")
        yield f"--signal={options['signal']} (some releases refuse it where nothing is preempted)"


def doubts_of_dependency(options: Mapping[str, str], permissions: Permissions, jobs: Collection[int]) -> Iterator[str]:
    """Yield a dependency on the result of a job that is none of *jobs*, which wait or run.

    Releases since 23.02 refuse it as soon as they know no such job: some minutes after it has ended (MinJobAge).
    """
    asked = _ON_RESULTS.findall(options.get("dependency", ""))
    ids = {int(number) for words in asked for number in re.findall(":([0-9]+)", words)}
    if any(release.sizes.newer_values for release in permissions.releases) and not ids <= set(jobs):
        gone = ", ".join(map(str, sorted(ids - set(jobs))[:_NAMED]))
        yield f"--dependency={options['dependency'][:80]} (some releases refuse it, unless job {gone} has just ended)"


def doubts_of_partitions(
    options: Mapping[str, str], request: SbatchRequest, partitions: PartitionTable, rows: list[int]
) -> Iterator[str]:
    """Yield what limits of the partitions in *rows* decide in ways that are not counted.

    Seen on 22.05 and 24.11: memory of a node in place of memory by GPU, and tasks, GPUs and features that must fit on
    fewer nodes than the job may have.
    """
    by_node, whole = partitions.node_cpus[rows] > 0, partitions.whole_nodes[rows]
    memory = (partitions.node_memory_mib[rows] > 0) | (partitions.cpu_memory_mib[rows] > 0)
    if "mem-per-gpu" in options and (memory | by_node | whole).any():
        yield f"--mem-per-gpu={options['mem-per-gpu']} (beside limits of the partition on what a job has of a node)"
    if "ntasks-per-node" in options and by_node.any():
        yield f"--ntasks-per-node={options['ntasks-per-node']} (beside MaxCPUsPerNode of the partition)"
    if "ntasks-per-node" in options and request.tasks < request.tasks_per_node:
        yield f"--ntasks-per-node={request.tasks_per_node} (which nodes must have room for more tasks than it has)"
    of_nodes = request.tasks_per_node * request.nodes if "ntasks-per-node" in options else 0
    if "gpus-per-task" in options and request.tasks < of_nodes:
        yield f"--gpus-per-task={options['gpus-per-task']} (beside more tasks of its nodes than it has)"
    if "gpus" in options and by_node.any():
        yield f"--gpus={options['gpus']} (beside MaxCPUsPerNode of the partition)"
    if "cpus-per-gpu" in options and (memory | whole | request.exclusive).any():
        yield f"--cpus-per-gpu={options['cpus-per-gpu']} (beside whole nodes, or limits on what a job has of a node)"
    for name, asked in (("overcommit", "overcommit" in options), ("mem=0", request.all_memory)):
        if asked and memory.any():
            yield f"--{name} (beside limits of the partition on memory)"
    if "*" in options.get("constraint", "") and (memory | by_node | whole | request.exclusive).any():
        yield f"--constraint={options['constraint']} (beside limits of the partition on what a job has of a node)"
    if 0 < whole.sum() < len(rows):
        yield "-p (which of the partitions gives it whole nodes)"
    if request.required and len(expand(request.required)) != request.most_nodes and "gpus" in options:
        yield f"--nodelist={request.required} (which other nodes it has for its GPUs)"
