"""All rows of the database that a report is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .hours import NO_HOURS, HourTable
from .outcomes import OutcomeTable
from .prediction_records import NO_RECORDS, PredictionRecords
from .profiles import MeasuredNodes
from .promises import NO_PROMISES, PromiseTable
from .trial import OfBlock, Trial, TrialSums
from .usage import NO_KEPT_USAGE, KeptUsage

JobKey = tuple[int, int]  #: job id and whole second of its first submission: Slurm reuses ids


@dataclass(frozen=True, eq=False)
class ReportRows:
    """What is known of a choice of jobs in a span of time; promises and hours are those of all jobs."""

    runs: OutcomeTable  #: that ended in the span, and those that ran at its end, as RUNNING
    nodes: MeasuredNodes
    everybody: OutcomeTable | None = None  #: the runs of all, where the choice is not all
    predictions: PredictionRecords = field(default_factory=lambda: NO_RECORDS)
    promises: PromiseTable = field(default_factory=lambda: NO_PROMISES)
    held: frozenset[JobKey] = frozenset()  #: jobs that we held for some time
    use: KeptUsage = field(default_factory=lambda: NO_KEPT_USAGE)
    hours: HourTable = field(default_factory=lambda: NO_HOURS)
    trials: Sequence[tuple[Trial, Mapping[OfBlock, TrialSums]]] = ()  #: that ran in the span, the latest first
