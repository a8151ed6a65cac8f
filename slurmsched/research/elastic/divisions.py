"""The built-in divisions: rules that divide all GPUs among elastic applications."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ...policies.ordering.fair_queueing import DEFAULT
from ...policies.ordering.wfq import FIFO, Wfq
from ...policies.ordering.wfq_line import line_of, rules_from
from ...policies.registry import Part, Registry
from .shares import share
from .state import AFS_L, FAIR, SRSF, THEMIS, WFQ, ApplicationData, ElasticRules, State

LEASE_S = 600.0
"""Seconds of a lease of ``themis``, as its authors recommend."""


@dataclass(frozen=True)
class Division(Part[Callable[..., None]]):
    """A named rule about the shares of one pool that elastic applications get; see ``Shares``."""


DIVISIONS: Registry[Division] = Registry("division")


@dataclass(frozen=True)
class Shares:
    """One of the rules of ``shares.share``, with classes and caps by *wfq*."""

    kind: int
    wfq: Wfq = FIFO
    lease_s: float = math.inf  #: infinite where GPUs are divided again at arrivals and ends only

    def __call__(self, data: ApplicationData, rules: ElasticRules, state: State) -> None:
        """Divide the GPUs."""
        share(data, rules, state)


def _tuned(settings: Mapping[str, str]) -> Shares:
    return Shares(WFQ, rules_from(settings, DEFAULT))


for _name, _shares, _summary in (
    ("fifo", Shares(WFQ), "First come, first served; GPUs that the first job cannot use go to the next."),
    ("srsf", Shares(SRSF), "Shortest remaining service first: Tiresias with known sizes."),
    ("afs-l", Shares(AFS_L), "Each GPU in turn goes to the job that gains most by it (AFS, NSDI'21)."),
    (
        "themis",
        Shares(THEMIS, lease_s=LEASE_S),
        "The job farthest behind its fair finish first, again every ten minutes (Themis, NSDI'20).",
    ),
    ("fair-share", Shares(FAIR), "Equal shares, to no job more than it can use."),
):
    DIVISIONS.add(Division(_name, _shares, _summary))

DIVISIONS.add(
    Division(
        "wfq",
        Shares(WFQ, DEFAULT),
        "Weighted fair queueing by classes of GPU time, with caps on the GPUs of a job (PCS).",
        tuned=_tuned,
        defaults=line_of(DEFAULT),
    )
)
