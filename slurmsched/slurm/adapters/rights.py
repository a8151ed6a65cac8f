"""Our rights and those of users, and the priorities of QOS, as slurmdbd tells them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ...cluster.columns import Labels
from ...cluster.nodes import QosTable
from ...errors import SlurmError, SlurmUnavailable
from ..port import ClusterInfo
from ..read.permissions import permissions_of, with_associations
from ..read.records import heads, reading
from .command_runner import CommandRunner

logger = logging.getLogger(__name__)


def with_rights(console: CommandRunner, facts: ClusterInfo, earlier: ClusterInfo | None) -> ClusterInfo:
    """Add our rights and the users who may change all jobs; while slurmdbd is away, those of *earlier*."""
    above = users_with_all_rights(facts.config)
    levels: dict[str, str] = {}
    if facts.accounting:
        try:
            levels = {user: level for level, user in _accounts(console, "user", "adminlevel")}
        except SlurmError:
            if earlier is not None:
                return replace(facts, admin_level=earlier.admin_level, operators=earlier.operators)
            return replace(facts, admin_level="SlurmUser" if facts.user in above else "unknown")
    operators = above | {user for user, level in levels.items() if level not in {"", "None"}}
    ours = "SlurmUser" if facts.user in above else levels.get(facts.user, "None") or "None"
    return replace(facts, admin_level=ours, operators=frozenset(operators))


def with_permissions(
    console: CommandRunner, facts: ClusterInfo, partitions: str, earlier: ClusterInfo | None
) -> ClusterInfo:
    """Add who may submit what; while slurmdbd is away, the associations of *earlier*, as slurmctld does."""
    read = permissions_of(facts.config, partitions)
    if not facts.accounting:
        return replace(facts, permissions=replace(read, associations={}))
    try:
        read = with_associations(read, console.query, facts.cluster, facts.user)
    except SlurmError as error:
        logger.warning("associations were not read: %s", error)
        if earlier is not None:
            last = earlier.permissions
            read = replace(
                read,
                qos=last.qos,
                associations=last.associations,
                default_accounts=last.default_accounts,
                parents=last.parents,
            )
    return replace(facts, permissions=read)


def read_qos(console: CommandRunner, facts: ClusterInfo, last: QosTable) -> QosTable:
    """Return the priorities of QOS; the *last* ones where there is no slurmdbd, or none that answers."""
    if not facts.accounting:
        return last
    try:
        rows = _accounts(console, "qos", "priority")
        with reading("sacctmgr"):
            priorities = np.array([int(priority or 0) for priority, _ in rows], dtype=np.int64)
    except SlurmError:
        return last  # slurmdbd is away: the last priorities still hold
    return QosTable(Labels.of(name for _, name in rows), priorities)


def _accounts(console: CommandRunner, what: str, field: str) -> list[tuple[str, str]]:
    """Return (*field*, name) of each user or QOS of slurmdbd, by sacctmgr."""
    name = {"user": "user", "qos": "name"}[what]
    text = console.query(["sacctmgr", "-P", "show", what, f"format={field},{name}"])
    header, *lines = text.splitlines() or [""]
    if not heads(header.rpartition("|")[2], name) or not text.endswith("\n"):
        raise SlurmUnavailable("sacctmgr printed something that is not its answer")
    rows = (line.partition("|") for line in lines)
    return [(value, name) for value, _, name in rows]


def users_with_all_rights(config: Mapping[str, str]) -> set[str]:
    """Return the users who may do and see everything without a record in slurmdbd."""
    return {"root", config.get("SlurmUser", "").partition("(")[0]}
