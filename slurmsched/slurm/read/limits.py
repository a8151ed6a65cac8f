"""Limits from sacctmgr and scontrol: those of QOS, of associations, and licences."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...cluster.limits import (
    ACCOUNT,
    BILLING,
    EACH_ACCOUNT,
    GROUP,
    JOB,
    LEAST,
    LICENCE,
    NODE,
    QOS,
    RULES,
    SAFE,
    SUBMIT,
    USER,
    LimitTable,
    limit_table,
)
from ...cluster.reason_table import MINUTES, RUN_MINUTES
from ...cluster.text.tres import NOTHING, memory_mib, seconds
from .records import reading

QOS_FIELDS = {
    "name": "",
    "grptres": GROUP,
    "grpjobs": GROUP,
    "maxtrespu": USER,
    "maxjobspu": USER,
    "maxtrespa": EACH_ACCOUNT,
    "maxjobspa": EACH_ACCOUNT,
    "maxtres": JOB,
    "mintres": LEAST,
    "maxwall": JOB,
    "maxtrespernode": NODE,
    "maxtresmins": JOB,
    "grptresmins": GROUP,
    "grptresrunmins": GROUP,
    "maxtresrunminspu": USER,
    "maxtresrunminspa": EACH_ACCOUNT,
    "grpsubmitjobs": GROUP,
    "maxsubmitjobspu": USER,
    "maxsubmitjobspa": EACH_ACCOUNT,
    "flags": "",
    "usagefactor": "",
    "limitfactor": "",
}
"""Fields of ``sacctmgr show qos`` (sacctmgr(1)), and what each counts together."""

ASSOCIATION_FIELDS = (
    "account",
    "user",
    "partition",
    "parentname",
    "grptres",
    "grpjobs",
    "maxjobs",
    "maxtres",
    "maxwall",
    "maxtrespernode",
    "maxtresmins",
    "grptresmins",
    "grptresrunmins",
    "grpsubmitjobs",
    "maxsubmitjobs",
)
_OF_GROUP = dict.fromkeys(("grptres", "grpjobs", "grpsubmitjobs", "grptresmins", "grptresrunmins"), GROUP)
_INHERITED = {
    "maxjobs": USER,
    "maxsubmitjobs": USER,
    "maxtres": JOB,
    "maxwall": JOB,
    "maxtrespernode": NODE,
    "maxtresmins": JOB,
}

_LICENCE = re.compile(r"LicenseName=(\S+)\s+Total=(\d+)")
_USE = ("scontrol", "show", "assoc_mgr", "flags=assoc,qos", "--oneliner")
_OF_USE = re.compile(
    r"^(?:QOS=(?P<qos>[^(\s]*)|ClusterName=\S* Account=(?P<account>\S*) UserName=(?P<user>[^(\s]*)\S* "
    r"Partition=(?P<partition>\S*)).*? GrpTRESMins=(?P<minutes>\S*)",
    re.MULTILINE,
)

Query = Callable[[Sequence[str]], str]
Row = dict[str, Any]


def read_shared_limits(query: Query, cluster: str, *, accounting: bool, safe: bool = False) -> LimitTable:
    """Return all limits; SlurmError where the commands do not answer. *safe* is of AccountingStorageEnforce.

    Every user may read licences and QOS; associations too, unless PrivateData has users (then an operator may). What is
    gone of a limit of minutes is asked for only where there is one. Where it is not shown, or a QOS has a UsageFactor,
    the minutes of the limit are not known.
    """
    rows: list[Row] = []
    with reading("sacctmgr"):
        if accounting:
            qos = _records(query(["sacctmgr", "-nP", "show", "qos", f"format={','.join(QOS_FIELDS)}"]), [*QOS_FIELDS])
            rows += [row for record in qos for row in _of_qos(record)]
            wanted = f"format={','.join(ASSOCIATION_FIELDS)}"
            shown = query(["sacctmgr", "-nP", "show", "assoc", f"cluster={cluster}", wanted])
            rows += _of_associations(_records(shown, ASSOCIATION_FIELDS))
            if any(_is_over_time(row) for row in rows):
                plain = all(float(record["usagefactor"] or 1) == 1 for record in qos)
                gone = _gone(query(_USE)) if plain else None
                rows = [_with_use(row, gone, safe) if _is_over_time(row) else row for row in rows]
    with reading("scontrol show licenses"):
        rows += _of_licences(query(["scontrol", "show", "licenses", "-o"]))
    return limit_table(rows)


def _is_over_time(row: Row) -> bool:
    return str(row.get("resource", "")).startswith((f"{MINUTES}:", f"{RUN_MINUTES}:"))


def _gone(text: str) -> dict[tuple[str, ...], float]:
    """Return the minutes that are gone, by QOS, or by account, user and partition, and by resource."""
    gone: dict[tuple[str, ...], float] = {}
    for record in _OF_USE.finditer(text):
        of = (record["qos"],) if record["qos"] else (record["account"], record["user"], record["partition"])
        for part in record["minutes"].split(","):
            name, _, amount = part.partition("=")
            gone[*of, _of_tres(name)] = float(amount.partition("(")[2].rstrip(")") or 0)
    return gone


def _with_use(row: Row, gone: dict[tuple[str, ...], float] | None, safe: bool) -> Row:
    """Return a limit over time with what is gone of it; one of MINUTES, whose use is not known, where nobody says."""
    family, _, resource = str(row["resource"]).partition(":")
    of = (row["name"],) if row["whose"] == QOS else (row["name"], row.get("user", ""), row.get("partition", ""))
    if gone is None or (family == MINUTES and row["counts"] == GROUP and (*of, resource) not in gone):
        return row | {"resource": MINUTES, "most": 0.0}
    if family == RUN_MINUTES or row["counts"] != GROUP:
        return row
    flags = ",".join(filter(None, [row.get("flags", ""), SAFE if safe else ""]))
    return row | {"used": gone[*of, resource], "flags": flags}


def _records(text: str, fields: Sequence[str]) -> list[dict[str, str]]:
    rows = [line.split("|") for line in text.splitlines() if line]
    return [dict(zip(fields, row, strict=True)) for row in rows]


def _of_qos(record: dict[str, str]) -> Iterator[Row]:
    factor = float(record["limitfactor"] or 0)
    if record["flags"] or factor:  # a QOS without limits, too, has a say in those of others
        yield {"whose": RULES, "name": record["name"], "flags": record["flags"], "most": max(factor, 0.0)}
    for field, counts in QOS_FIELDS.items():
        if counts:
            for resource, most in _amounts(field, record[field]):
                yield {"whose": QOS, "name": record["name"], "counts": counts, "resource": resource, "most": most}


def _of_associations(records: list[dict[str, str]]) -> list[Row]:
    """Return the limits of accounts with all accounts below them, and those that each account and user inherits."""
    accounts = {record["account"]: record for record in records if not record["user"]}
    below = {name: [other for other in accounts if name in _above(other, accounts)] for name in accounts}
    rows: list[Row] = []
    for record in records:
        base = {"whose": ACCOUNT, "name": record["account"], "user": record["user"], "partition": record["partition"]}
        group = [record["account"]] if record["user"] else below[record["account"]]
        for fields, members in ((_OF_GROUP, ",".join(group)), (_INHERITED, record["account"])):
            for field, counts in fields.items():
                text = record[field] if record["user"] or field in _OF_GROUP else _inherited(record, field, accounts)
                rows += [
                    base | {"members": members, "counts": counts, "resource": resource, "most": most}
                    for resource, most in _amounts(field, text)
                ]
    return rows


def _above(name: str, accounts: dict[str, dict[str, str]]) -> list[str]:
    """Return an account and those above it, the nearest first."""
    line: list[str] = []
    while name in accounts and name not in line:
        line.append(name)
        name = accounts[name]["parentname"]
    return line


def _inherited(record: dict[str, str], field: str, accounts: dict[str, dict[str, str]]) -> str:
    line = (accounts[name][field] for name in _above(record["account"], accounts))
    return next((text for text in line if text), "")


def _amounts(field: str, text: str) -> Iterator[tuple[str, float]]:
    """Yield resource and amount of a limit: ``2`` of jobs, ``00:10:00`` of wall, ``cpu=4,gres/gpu=2``."""
    if text in NOTHING:
        return
    if field.endswith("wall"):
        yield "wall", seconds(text)
    elif "jobs" in field:
        yield SUBMIT if "submit" in field else "jobs", float(int(text))
    elif "mins" in field:
        family = RUN_MINUTES if "run" in field else MINUTES
        for name, _, amount in (part.partition("=") for part in text.split(",")):
            resource = _of_tres(name)
            counted = resource not in ("", "mem", BILLING)
            yield (f"{family}:{resource}", float(int(amount))) if counted else (MINUTES, 0.0)
    else:
        for name, _, amount in (part.partition("=") for part in text.split(",")):
            if resource := _of_tres(name):
                yield resource, memory_mib(amount) if resource == "mem" else float(int(amount))


def _of_tres(name: str) -> str:
    """Return the resource of a TRES of Slurm; empty for one that jobs of ours do not have."""
    if name == "gres/gpu" or name.startswith("gres/gpu:"):
        return name.removeprefix("gres/")
    return {"cpu": "cpu", "mem": "mem", "node": "node", "billing": BILLING}.get(name, "")


def _of_licences(text: str) -> list[Row]:
    return [
        {"whose": LICENCE, "name": name, "counts": GROUP, "resource": "licence", "most": float(total)}
        for name, total in _LICENCE.findall(text)
    ]
