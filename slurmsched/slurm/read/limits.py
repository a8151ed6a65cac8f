"""Limits from sacctmgr and scontrol: those of QOS, of associations, and licences."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...cluster.columns import Labels
from ...cluster.limits import (
    ACCOUNT,
    BILLING,
    EACH_ACCOUNT,
    GROUP,
    JOB,
    LEAST,
    LICENCE,
    MINUTES,
    NODE,
    QOS,
    RULES,
    SUBMIT,
    USER,
    LimitTable,
)
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

Query = Callable[[Sequence[str]], str]
Row = dict[str, Any]


def read_shared_limits(query: Query, cluster: str, *, accounting: bool) -> LimitTable:
    """Return all limits; SlurmError where the commands do not answer.

    Every user may read licences and QOS; associations too, unless PrivateData has users (then an operator may).
    """
    rows: list[Row] = []
    with reading("sacctmgr"):
        if accounting:
            qos = _records(query(["sacctmgr", "-nP", "show", "qos", f"format={','.join(QOS_FIELDS)}"]), [*QOS_FIELDS])
            rows += [row for record in qos for row in _of_qos(record)]
            wanted = f"format={','.join(ASSOCIATION_FIELDS)}"
            shown = query(["sacctmgr", "-nP", "show", "assoc", f"cluster={cluster}", wanted])
            rows += _of_associations(_records(shown, ASSOCIATION_FIELDS))
    with reading("scontrol show licenses"):
        rows += _of_licences(query(["scontrol", "show", "licenses", "-o"]))
    texts = ("whose", "name", "members", "user", "partition", "counts", "resource", "flags")
    columns = {name: Labels.of([row.get(name, "") for row in rows]) for name in texts}
    return LimitTable(**columns, most=np.array([row["most"] for row in rows], dtype=np.float64))


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
        yield MINUTES, 0.0
    else:
        for part in text.split(","):
            name, _, amount = part.partition("=")
            resource = {"cpu": "cpu", "mem": "mem", "node": "node", "billing": BILLING}.get(name, "")
            if name == "gres/gpu" or name.startswith("gres/gpu:"):
                resource = name.removeprefix("gres/")
            if resource:
                yield resource, memory_mib(amount) if resource == "mem" else float(int(amount))


def _of_licences(text: str) -> list[Row]:
    return [
        {"whose": LICENCE, "name": name, "counts": GROUP, "resource": "licence", "most": float(total)}
        for name, total in _LICENCE.findall(text)
    ]
