"""Associations with their shares, from ``scontrol show assoc_mgr``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from ...cluster.columns import Labels
from ...cluster.records.associations import OF_PARENT, AssociationTable
from .records import reading

_COMMAND = ("scontrol", "show", "assoc_mgr", "flags=assoc", "--oneliner")
_RECORD = re.compile(
    r"^ClusterName=\S* Account=(?P<account>\S*) UserName=(?P<user>[^(\s]*)\S* Partition=(?P<partition>\S*) "
    r"Priority=(?P<priority>\d+) .*?\bSharesRaw/\S+=(?P<shares>\d+)/\S* .*?\bParentAccount=(?P<parent>[^(\s]*)\S* "
    r".*?(?:\bLft=(?P<left>\d+) )?.*?\bDefAssoc=(?P<default>\w*)",
    re.MULTILINE,
)
_SHARES_OF_PARENT = 0x7FFFFFFF


def read_associations(query: Callable[[Sequence[str]], str]) -> AssociationTable:
    """Return all associations that slurmctld knows, in its order of siblings; SlurmError where it does not answer.

    Under PrivateData=users or usage it shows others' only to operators.
    """
    with reading("scontrol show assoc_mgr"):
        rows = [record.groupdict() for record in _RECORD.finditer(query(_COMMAND))]
        rows.sort(key=lambda row: int(row["left"] or 0))
        texts = {name: Labels.of(row[name] for row in rows) for name in ("account", "user", "partition", "parent")}
        return AssociationTable(
            **texts,
            default=np.array([row["default"] == "Yes" for row in rows], dtype=np.bool_),
            shares=np.array(list(_shares(row["shares"] for row in rows)), dtype=np.int64),
            priority=np.array([int(row["priority"]) for row in rows], dtype=np.int64),
        )


def _shares(texts: Iterable[str]) -> Iterator[int]:
    for text in texts:
        yield OF_PARENT if int(text) == _SHARES_OF_PARENT else int(text)
