"""Who may submit what, from sacctmgr, ``scontrol show partition`` and the configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ...cluster.permissions import (
    OLDEST,
    SINCE_24_11,
    SINCE_25_11,
    SINCE_26_05,
    Association,
    PartitionAccess,
    Permissions,
    Release,
)
from ...cluster.text.tres import NOTHING
from ..port import preemption
from ..versions import TESTED, SlurmRelease
from .partitions import partition_records
from .records import reading

Query = Callable[[Sequence[str]], str]

_ASSOCIATIONS = ("user", "account", "partition", "parentname", "qos", "defaultqos")
_IMPLY_ASSOCIATIONS = frozenset({"associations", "limits", "qos", "safe", "wckeys", "all"})
_CLOSED = ("DRAIN", "INACTIVE")


def permissions_of(config: Mapping[str, str], partitions: str) -> Permissions:
    """Return what *config* and the output of ``scontrol --oneliner show partition`` tell; associations are not read."""
    words = set(config.get("AccountingStorageEnforce", "").lower().split(","))
    enforced = {"associations"} if words & _IMPLY_ASSOCIATIONS else set()
    return Permissions(
        enforced=frozenset(enforced | ({"qos"} if words & {"qos", "all"} else set())),
        part_limits=config.get("EnforcePartLimits", "NO").upper(),
        releases=_releases(SlurmRelease.of(config)),
        array_size=int(size) if (size := config.get("MaxArraySize", "")).isdecimal() else 0,
        preempts_by=preemption(config),
        masters=frozenset({"root", config.get("SlurmUser", "").partition("(")[0]}),
        partitions={name: _access(fields) for name, fields in partition_records(partitions).items()},
    )


def _releases(release: SlurmRelease) -> tuple[Release, ...]:
    """Return how *release* decides; both ways where it lies between two that were tested."""
    if release.can("task_on_each_node"):
        return (SINCE_26_05,)
    if release.can("defaults_where_nodes_are_enough"):
        return (SINCE_25_11,)
    if release.can("inherits_accounts"):
        return (SINCE_24_11,)
    return (OLDEST,) if release.series <= TESTED[0] else (OLDEST, SINCE_24_11)


def with_associations(permissions: Permissions, query: Query, cluster: str, user: str) -> Permissions:
    """Add QOS, associations and default accounts to *permissions*; SlurmError where sacctmgr does not answer.

    slurmdbd may hide associations (its PrivateData): then *user* does not see that of root, and all stay unread.
    """
    where = f"cluster={cluster}"
    with reading("sacctmgr"):
        qos = _rows(query, "qos", ("name", "flags", "preempt"))
        rows = _rows(query, "assoc", _ASSOCIATIONS, where)
        defaults = _rows(query, "user", ("user", "defaultaccount"), where)
    flags = {name.lower(): "requiresreservation" in text.lower() for name, text, *_ in qos}
    permissions = replace(
        permissions,
        preempting_qos=frozenset(name.lower() for name, *_, others in qos if others),
    )
    if user != "root" and not any(row[0] == "root" for row in rows):
        return replace(permissions, qos=flags)
    return replace(
        permissions,
        qos=flags,
        associations={
            (user, account, partition): Association(_names(names), default.lower())
            for user, account, partition, _, names, default in rows
        },
        default_accounts={row[0]: row[1] for row in defaults},
        parents={account: parent for user, account, _, parent, *_ in rows if not user},
    )


def _rows(query: Query, what: str, fields: Sequence[str], *where: str) -> list[list[str]]:
    """Return *fields* of each record of sacctmgr; ValueError where a name has the mark between them."""
    text = query(["sacctmgr", "-nP", "show", what, *where, f"format={','.join(fields)}"])
    rows = [line.split("|") for line in text.splitlines() if line]
    if any(len(row) != len(fields) for row in rows):
        raise ValueError(text[:80])
    return rows


def _access(fields: Mapping[str, str]) -> PartitionAccess:
    return PartitionAccess(
        takes_jobs=fields.get("State", "UP").upper() not in _CLOSED,
        accounts=_chosen(fields, "AllowAccounts"),
        denied_accounts=_chosen(fields, "DenyAccounts") or frozenset(),
        qos=_chosen(fields, "AllowQos"),
        denied_qos=_chosen(fields, "DenyQos") or frozenset(),
        groups=None if _is_all(fields, "AllowGroups") else frozenset(fields["AllowGroups"].split(",")),
        root=fields.get("DisableRootJobs", "NO") != "YES",
        others=fields.get("RootOnly", "NO") != "YES",
        from_anywhere=_is_all(fields, "AllocNodes"),
        needs_reservation=fields.get("ReqResv", "NO") == "YES",
        tier=int(fields.get("PriorityTier", "1")),
    )


def _chosen(fields: Mapping[str, str], name: str) -> frozenset[str] | None:
    return None if _is_all(fields, name) else _names(fields[name])


def _is_all(fields: Mapping[str, str], name: str) -> bool:
    return fields.get(name, "ALL") in ("ALL", *NOTHING)


def _names(text: str) -> frozenset[str]:
    return frozenset(filter(None, text.lower().split(",")))
