"""The course of a flow of jobs: when each came, started and ended, and what the daemon did."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass, field

from slurmsched.cluster.jobs import JobState
from slurmsched.cycle import CycleReport
from slurmsched.research.pareto.beside_slurm import FirstLooks
from slurmsched.simulator.decisions import DecisionWatch

ACTIONS = {
    "steered": "Steer",
    "let go": "Unsteer",
    "sized": "Rightsize",
    "sizes given back": "RestoreSize",
    "resized": "Resize",
    "node moves": "MoveNodes",
    "to their own partition": "MovePartition",
}
"""The spellings of actions that are counted, by the word for them."""


@dataclass
class Course:
    """What became of a flow."""

    decided: DecisionWatch = field(default_factory=DecisionWatch)
    actions: Counter[str] = field(default_factory=Counter)
    ended_s: dict[int, float] = field(default_factory=dict)
    started_s: dict[int, float] = field(default_factory=dict)
    submitted_s: dict[int, float] = field(default_factory=dict)
    restarts: Counter[int] = field(default_factory=Counter)
    last_on: dict[int, tuple[str, int]] = field(default_factory=dict)  #: type and number of GPUs of the last run
    backfill_s: float = 0.0  #: the first pass of backfill
    looks: FirstLooks | None = None  #: what is predicted of each job when it comes; None for nothing

    def watch(self, report: CycleReport) -> None:
        """Count, and note the ends of jobs."""
        self.decided.watch(report)
        if self.looks is not None:
            self.looks.watch(report)
        self.actions.update(report.actions)
        ended = report.ended
        for at in range(len(ended)):
            job = int(ended.job_id[at])
            self.restarts[job] = max(self.restarts[job], int(ended.restart[at]))
            if ended.state[at] == JobState.COMPLETED:
                self.ended_s[job], self.started_s[job] = float(ended.ended_s[at]), float(ended.started_s[at])
                self.submitted_s[job] = float(ended.first_submit_s[at])
                self.last_on[job] = ended.gpu_type[at], int(ended.gpus[at])

    @property
    def jct_s(self) -> float:
        """Mean time from the submission of a job to its end."""
        return statistics.mean(self.ended_s[job] - self.submitted_s[job] for job in self.ended_s)

    @property
    def error(self) -> float:
        """Mean difference of a JCT and the one predicted first, as a share of that."""
        assert self.looks is not None
        made_s = {job: finish_s - self.submitted_s[job] for job, finish_s in self.looks.finish_s.items()}
        return statistics.mean(
            abs(self.ended_s[job] - self.submitted_s[job] - jct_s) / jct_s for job, jct_s in made_s.items()
        )

    def counts(self) -> dict[str, int]:
        """The figures that should be equal."""
        figures = self.decided.figures()
        return {
            "pairs": figures.pairs,
            "yields": figures.yields,
            "requeues": sum(self.restarts.values()),
            **{word: self.actions[spelling] for word, spelling in ACTIONS.items()},
            "promised": figures.promised,
            "refused": figures.refused,
            "broken": figures.broken,
        }
