"""Reservations from ``scontrol show reservation``, with the next windows of those that repeat."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np

from ...cluster.columns import IntArray, Labels
from ...cluster.nodes import NodeTable
from ...cluster.reservations import NO_RESERVATIONS, UNREAD, ReservationTable
from ...cluster.text.hostlist import expanded
from ...cluster.text.tres import NOTHING, gpus_by_type, gpus_in
from ...errors import SlurmUnavailable

logger = logging.getLogger(__name__)

SHOW = ("scontrol", "show", "reservation", "--all", "--oneliner")
"""The command that shows reservations, with times in Unix seconds where ``SLURM_TIME_FORMAT`` is ``%s``."""

_BEGIN = "ReservationName="
_NONE_THERE = re.compile(r"No reservations in the system\s*")
_FIELD = re.compile(r"(?:^|\s)([A-Za-z]+)=(\S*)")
_DIGITS = re.compile(r"[0-9]{1,12}")
_CPUS = re.compile(r"(?:^|,)cpu=([0-9]{1,9})(?:,|$)")
_CORES = re.compile(r"\sNodeName=(\S+) CoreIDs=([0-9,-]+)(?=\s)")
_COMMENT = re.compile(r"\sComment=")

AHEAD = {"HOURLY": 48, "DAILY": 31, "WEEKDAY": 31, "WEEKEND": 31, "WEEKLY": 9}
"""The windows, of those that repeat, that have a row: for two days of hours, a month of days, and two of weeks."""

_OF_NODES = "CPUs of nodes"
"""The name, of ours, of the CPUs of each node."""

_MOVING = "TIME_FLOAT"
"""The flag of a window that stays as far ahead as it is."""

_DAY = timedelta(days=1)
_STEPS = {"HOURLY": timedelta(hours=1), "WEEKLY": 7 * _DAY}
_WEEKEND = (5, 6)


class _Window(NamedTuple):
    fields: Mapping[str, str]
    start_s: float
    end_s: float


def read_reservations(text: str, nodes: NodeTable) -> ReservationTable:
    """Return the windows in the output of ``scontrol show reservation --all --oneliner``, with times in Unix seconds.

    A window takes whole nodes if it has as many CPUs as jobs may have on those of *nodes* that it names. A reservation
    without times that can be read, or whose window moves on with the clock, has a row with the flag UNREAD. Raises
    SlurmUnavailable for other content. What an admin wrote as a comment comes last and is not read.
    """
    if _NONE_THERE.fullmatch(text) or not text.strip():
        return NO_RESERVATIONS
    if not text.startswith(_BEGIN):
        raise SlurmUnavailable("scontrol show reservation printed something that is not its answer")
    windows = [window for line in _records(text) for window in _windows(line)]
    return _table_of(windows, nodes)


def _table_of(windows: list[_Window], nodes: NodeTable) -> ReservationTable:
    cpus = dict(zip(nodes.name, nodes.cpus.tolist(), strict=True))
    whole = [_is_whole(one.fields, cpus) for one in windows]
    texts = {name: _labels(windows, name) for name in ("Nodes", "PartitionName", "Users", "Groups", "Accounts")}
    tres = [one.fields.get("TRES", "") for one in windows]
    return ReservationTable(
        name=_labels(windows, "ReservationName"),
        start_s=np.array([one.start_s for one in windows], dtype=np.float64),
        end_s=np.array([one.end_s for one in windows], dtype=np.float64),
        nodes=texts["Nodes"],
        whole=np.array(whole, dtype=np.bool_),
        cores=np.array([_cpus_of(one.fields) for one in windows], dtype=np.int64),
        gpus=np.array([gpus_in(text)[0] for text in tres], dtype=np.int64),
        gpu_types=Labels.of(_types(text) for text in tres),
        flags=_labels(windows, "Flags"),
        partition=texts["PartitionName"],
        users=texts["Users"],
        groups=texts["Groups"],
        accounts=texts["Accounts"],
        licences=_labels(windows, "Licenses"),
        node_cpus=_labels(windows, _OF_NODES),
    )


def _records(text: str) -> Iterator[str]:
    """Yield each record without its comment, which may go on over lines; a line that begins none belongs to one."""
    for line in text.splitlines():
        if line.startswith(_BEGIN):
            yield _COMMENT.split(line, maxsplit=1)[0]


def _windows(line: str) -> Iterator[_Window]:
    fields: dict[str, str] = {}
    for name, value in _FIELD.findall(line):
        fields.setdefault(name, value)
    fields[_OF_NODES] = _cpus_by_node(line, fields)
    start, end = fields.get("StartTime", ""), fields.get("EndTime", "")
    if not (_DIGITS.fullmatch(start) and _DIGITS.fullmatch(end)):
        logger.warning("reservation %s has no times that we can read", fields.get("ReservationName", "")[:40])
        yield _unread(fields.get("ReservationName", ""))
        return
    if _MOVING in fields.get("Flags", "").split(","):
        yield _unread(fields["ReservationName"])
    for start_s, end_s in _repeated(float(start), float(end), fields.get("Flags", "")):
        yield _Window(fields, start_s, end_s)


def _unread(name: str) -> _Window:
    return _Window({"ReservationName": name, "Flags": UNREAD}, 0.0, 0.0)


def _is_whole(fields: Mapping[str, str], cpus: Mapping[str, int]) -> bool:
    """Report whether a reservation takes whole nodes; where its CPUs are not said, it does."""
    said = _CPUS.search(fields.get("TRES", ""))
    return said is None or int(said[1]) >= sum(cpus.get(name, 0) for name in expanded(fields.get("Nodes", "")))


def _cpus_of(fields: Mapping[str, str]) -> int:
    """Return the CPUs of a reservation; its cores where Slurm does not say them."""
    said = _CPUS.search(fields.get("TRES", ""))
    return int(said[1]) if said else _number(fields.get("CoreCnt", ""))


def _cpus_by_node(line: str, fields: Mapping[str, str]) -> str:
    """Return the CPUs of each node whose cores are listed, as n1=2+n2=4: of each core all threads."""
    cores = {name: sum(map(_ids_in, ids.split(","))) for text, ids in _CORES.findall(line) for name in expanded(text)}
    threads = max(1, _cpus_of(fields) // max(1, _number(fields.get("CoreCnt", ""))))
    return "+".join(f"{name}={threads * many}" for name, many in cores.items())


def _ids_in(span: str) -> int:
    """Return how many numbers a span such as 4-7 has."""
    first, _, last = span.partition("-")
    return int(last or first) - int(first) + 1 if first.isdecimal() else 0


def _repeated(start_s: float, end_s: float, flags: str) -> Iterator[tuple[float, float]]:
    """Yield this window and the next ones, at the same time of the clock as slurmctld moves them on."""
    yield start_s, end_s
    every = next((flag for flag in AHEAD if flag in flags.split(",")), None)
    if every is None:
        return
    start, end = datetime.fromtimestamp(start_s), datetime.fromtimestamp(end_s)
    step = _STEPS.get(every, _DAY)
    for place in range(1, AHEAD[every]):
        later = start + place * step
        if every not in ("WEEKDAY", "WEEKEND") or (later.weekday() in _WEEKEND) == (every == "WEEKEND"):
            yield later.timestamp(), (end + place * step).timestamp()


def _labels(windows: list[_Window], name: str) -> Labels:
    texts = (window.fields.get(name, "") for window in windows)
    return Labels.of("" if text in NOTHING else text for text in texts)


def _types(tres: str) -> str:
    return "+".join(f"{name}={many}" for name, many in gpus_by_type(tres).items() if name)


def _number(text: str) -> int:
    return int(text) if _DIGITS.fullmatch(text) else 0


@dataclass
class ReservationReader:
    """The reader of each cycle's answer: one that equals the last is not read again, and gives the same table."""

    _last: tuple[str, IntArray] | None = None
    _known: ReservationTable = NO_RESERVATIONS
    _table: ReservationTable = NO_RESERVATIONS

    def read(self, text: str, nodes: NodeTable) -> ReservationTable:
        """Return the windows in *text*; those known before beside one UNREAD, with a warning, where it is no answer."""
        if self._last is None or text != self._last[0] or not np.array_equal(nodes.cpus, self._last[1]):
            try:
                self._table = self._known = read_reservations(text, nodes)
            except SlurmUnavailable as error:
                logger.warning("reservations are not known now: %s", error)
                self._table = self._known.joined(_table_of([_unread("")], nodes))
            self._last = text, nodes.cpus
        return self._table
