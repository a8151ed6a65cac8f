"""Read Slurm's reasons of pending jobs: what each means, whether waiting can end it, and how to say so.

Squeue prints one word, or a text that begins with words of Slurm and may go on with names, also of a user's choice.
Only what a pattern of ours takes from it is ever said.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from .columns import BoolArray, Labels
from .jobs import JobTable
from .reason_table import (
    ADVICE,
    MAINTENANCE,
    MAY_BE_RESERVED,
    MINUTES,
    NODES_AWAY,
    NODES_NAMED,
    ONE_PARTITION,
    REQUEUED_HELD,
    RUN_MINUTES,
    SPECIAL_EXIT,
    TEXTS,
    UNSEEN,
    WORDS,
    Ends,
    Limit,
    Meaning,
    ReasonKind,
    Whose,
)

__all__ = ["Ends", "Limit", "Reason", "ReasonKind", "Whose", "of_one_way", "reason_of", "where_kind"]


@dataclass(frozen=True)
class Reason:
    """What Slurm's reason for a pending job means."""

    word: str  #: Slurm's word, or the beginning of its text; empty where it gives no reason
    meaning: Meaning
    code: str = ""  #: the word of the same meaning, where this is a text
    known: bool = True  #: False for a text that no release known to us prints
    named: str = ""  #: nodes or a reservation that Slurm's text names

    @property
    def kind(self) -> ReasonKind:
        """Return what has to happen before the job may start."""
        return self.meaning.kind

    @property
    def clause(self) -> str:
        """Return what it means, without a full stop."""
        return self.meaning.clause

    @property
    def limit(self) -> Limit | None:
        """Return the limit that blocks the job."""
        return self.meaning.limit

    @property
    def in_turn(self) -> bool:
        """Return True if the job waits for its turn or for nodes, so that the jobs ahead and free nodes tell more."""
        return self.meaning.in_turn

    @property
    def plain(self) -> bool:
        """Return True if the job waits for its turn or for nodes and the reason tells nothing more."""
        return self.meaning.plain

    @property
    def unseen(self) -> bool:
        """Return True if Slurm gives no reason: it has not looked at the job since its last change."""
        return self.meaning is UNSEEN

    @property
    def names_nodes(self) -> bool:
        """Return True if it says that nodes, which it names, take no jobs."""
        return self.meaning is NODES_NAMED

    @property
    def of_some_nodes(self) -> bool:
        """Return True if it says that nodes take no jobs or are kept for a higher tier, and not which of both."""
        return self.meaning is NODES_AWAY

    @property
    def for_maintenance(self) -> bool:
        """Return True if the job waits for the end of a maintenance of its nodes."""
        return self.meaning is MAINTENANCE

    @property
    def by_reservation(self) -> bool:
        """Return True if it says that nodes are, or may be, kept by a reservation."""
        return self.meaning is MAINTENANCE or self.meaning is MAY_BE_RESERVED

    @property
    def chosen_hold(self) -> bool:
        """Return True for a hold that the owner of a job can give it: by scontrol, or by how its run ended."""
        chosen = self.kind is ReasonKind.HELD_BY_USER
        return chosen or self.meaning is REQUEUED_HELD or self.meaning is SPECIAL_EXIT

    @property
    def one_partition(self) -> bool:
        """Return True if it is judged for one partition, so of a job in several it tells nothing of the others."""
        return (self.code or self.word) in ONE_PARTITION

    @property
    def beyond_partition(self) -> bool:
        """Return True if the request is outside the limits of its partition."""
        return self.kind is ReasonKind.CANNOT_RUN and self.limit is not None and self.limit.whose is Whose.PARTITION

    @property
    def one_qos(self) -> bool:
        """Return True if it is judged for one QOS, so of a job with several (24.11) it tells nothing of the others."""
        return self.limit is not None and self.limit.whose is Whose.QOS

    def of_one_way(self, partitions: str, qos: str) -> bool:
        """Return True if it tells of one partition or QOS, and the job may start by another of its lists."""
        return (self.one_partition and "," in partitions) or (self.one_qos and "," in qos)

    def advice(self, fields: Mapping[str, str]) -> str:
        """Return what the owner can do; *fields* has the words for braces."""
        return (self.meaning.advice or ADVICE[self.kind]).format_map({**fields, "named": self.named})

    def sentence(self, fields: Mapping[str, str]) -> str:
        """Return the whole sentence; *fields* has the words for braces."""
        text = self.meaning.sentence
        if text and (self.named or "{named}" not in text):
            return text.format_map({**fields, "named": self.named})
        word = f" ({self.word})" if self.known else ""
        return f"{self.clause[:1].upper()}{self.clause[1:]}{word}."


_LIMIT = re.compile(
    r"(?P<whose>QOS|Assoc|)(?P<of>Grp|Max|Min)"
    r"(?P<resource>Cpu|CPU|Memory|Mem|Node|GRES|License|BB|Energy|Billing|SubmitJobs?|Jobs|WallDuration|Wall|Unknown)"
    r"(?P<time>RunMinutes|RunMins|Minutes|)(?:Per(?P<per>Job|Node|User|Account)|)(?:Limit|NotSatisfied|)"
)
"""The words of limits of a QOS and of an association; without an owner they are the QOS's for each user or account."""

_NAMES = {
    "cpu": "CPUs",
    "mem": "memory",
    "node": "nodes",
    "gres": "GPUs or other generic resources",
    "license": "licences",
    "bb": "burst buffer",
    "energy": "energy",
    "billing": "billing units",
    "jobs": "running jobs",
    "submit": "submitted jobs",
    "wall": "time",
    "unknown": "a resource that Slurm does not name",
}
_SHORT = {"memory": "mem", "submitjob": "submit", "submitjobs": "submit", "wallduration": "wall"}


NAMED_MOST = 120  #: letters of a text of Slurm that a sentence takes

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_ -]{0,59}")
_NO_WORD = "a text that begins with no word"


@lru_cache(maxsize=4096)
def reason_of(text: str) -> Reason:
    """Return what squeue's *text* means; a text that no known release prints means that the job waits."""
    if found := _of_word(text):
        return found
    bare = text[1:-1] if text.startswith("(") and text.endswith(")") else text
    return _of_word(bare) or _of_text(bare) or _of_word(bare.partition(",")[0].partition(":")[0]) or _unknown(bare)


def where_kind(jobs: JobTable, *kinds: ReasonKind) -> BoolArray:
    """Select the rows whose reason is one of *kinds*.

    Of a job in several partitions, or with several QOS, a reason that is judged for one means that the job waits.
    """
    wanted = jobs.reason.map([reason_of(text).kind in kinds for text in jobs.reason.names], np.bool_)
    selected: BoolArray = np.where(of_one_way(jobs), ReasonKind.WAITS in kinds, wanted)
    return selected


def of_one_way(jobs: JobTable) -> BoolArray:
    """Select the rows whose reason tells of one of several partitions or QOS."""
    selected: BoolArray = np.zeros(len(jobs), dtype=np.bool_)
    reasons = [reason_of(text) for text in jobs.reason.names]
    if any(reason.one_partition for reason in reasons):
        partition = jobs.reason.map([reason.one_partition for reason in reasons], np.bool_)
        selected |= partition & _are_lists(jobs.partition)
    if any(reason.one_qos for reason in reasons):
        selected |= jobs.reason.map([reason.one_qos for reason in reasons], np.bool_) & _are_lists(jobs.qos)
    return selected


def _are_lists(labels: Labels) -> BoolArray:
    return labels.map(["," in names for names in labels.names], np.bool_)


def _of_word(word: str) -> Reason | None:
    if meaning := WORDS.get(word):
        return Reason(word, meaning)
    parts = _LIMIT.fullmatch(word)
    return Reason(word, _of_limit(**parts.groupdict())) if parts else None


def _of_text(text: str) -> Reason | None:
    for pattern, word, meaning in TEXTS:
        if begin := pattern.match(text):
            shown = begin[0] if " " in text else begin[0].replace("_", " ")
            shown = shown.strip(" /:") if len(shown) <= NAMED_MOST else word
            return Reason(shown, meaning, code=word, named=_names(begin.groupdict().get("named", "")))
    return None


def _names(text: str) -> str:
    """Return the names in a text, without the words of the tasks of an array that squeue adds behind them."""
    names = text.rstrip(",").split(",")
    while names and _of_word(names[-1]):
        names.pop()
    shown = ",".join(names)
    return shown if len(shown) <= NAMED_MOST else ""


def _unknown(text: str) -> Reason:
    begin = _WORD.match(text)
    word = begin[0].strip() if begin else _NO_WORD
    clause = f"it waits, and Slurm says: {word}"
    return Reason(word, Meaning(ReasonKind.WAITS, clause, in_turn=True), known=False)


def _of_limit(whose: str, of: str, resource: str, time: str, per: str | None) -> Meaning:
    short = resource.lower()
    short = _SHORT.get(short, short)
    owner = Whose.ACCOUNT if whose == "Assoc" else Whose.QOS
    counted = (per or {"Grp": "Group", "Min": "Job", "Max": "User"}[of]).lower()
    if of == "Min" or counted in ("job", "node"):
        ends = Ends.NEVER
    elif time == "Minutes" or (short == "wall" and counted == "group"):
        ends = Ends.WITH_TIME
    else:
        ends = Ends.WITH_JOBS
    over = "" if not time else MINUTES if time == "Minutes" else RUN_MINUTES
    limit = Limit(owner, short, counted, ends, over)
    return Meaning(ReasonKind.LIMIT, _limit_clause(limit, of, bool(time)), limit=limit)


def _limit_clause(limit: Limit, of: str, by_time: bool) -> str:
    name = _NAMES[limit.resource] + (" times time" if by_time else "")
    whose = limit.whose.value
    if of == "Min":
        return f"it asks for less than the least that {whose} requires ({name})"
    if limit.ends is Ends.NEVER:
        place = "on one node" if limit.of == "node" else "for one job"
        return f"it asks for more than {whose} allows {place} ({name})"
    holders = {"group": "all together", "user": "for one user", "account": "for one account"}[limit.of]
    if limit.ends is Ends.WITH_TIME:
        return f"what {whose} allows {holders} ({name}) is used up"
    return f"running jobs use what {whose} allows {holders} ({name})"
