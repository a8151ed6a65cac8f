"""The course of the demonstration: history, stock Slurm, slurmsched."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..cluster.records.outcomes import OutcomeTable
from ..errors import LabError
from ..lab import Lab, wait_until
from .lab_burst import GPUS, Say, free, fresh_lab, occupy, outcomes_of, submit, watch
from .operator_program import Slurmsched
from .summary import BurstSummary
from .workload import BURST, LONGEST_S, USERS, Submission, bursts

SOURCE = (
    "semi-synthetic: arrivals, GPUs and runtimes of Microsoft Philly (Jeon et al., ATC'19, CC-BY-4.0), minutes as"
    " seconds; users, names and time limits attached by a fixed rule"
)


PATIENCE_S = 240  #: for the answers to the user's queries


@dataclass(frozen=True)
class Size:
    """The extent of a demonstration: jobs in each burst, and seconds of the longest."""

    jobs: int
    longest_s: int
    minutes: int  #: approximate duration
    asked_after: int  #: ended jobs at the time of a user's query; 0 for one before any job of the burst starts


FULL = Size(BURST, LONGEST_S, 4, BURST // 4)
QUICK = Size(28, 3, 1, 0)


@dataclass(frozen=True)
class Shown:
    """Both runs of the measured burst, and slurmsched's answers in the middle of its own."""

    jobs: int
    history_runs: int  #: the daemon's whole history when the burst began
    stock: BurstSummary
    slurmsched: BurstSummary
    job_id: int  #: the job of both answers
    why: str
    explain: str
    simulated: bool = False  #: on a modelled Slurm in virtual time

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON types; a ratio is stock Slurm's figure over slurmsched's."""
        return {
            "simulated": self.simulated,
            "data": SOURCE,
            "jobs": self.jobs,
            "history_runs": self.history_runs,
            "stock": asdict(self.stock),
            "slurmsched": asdict(self.slurmsched),
            "ratio": self.stock.over(self.slurmsched),
            "asked_about_job": self.job_id,
            "why": self.why,
            "explain": self.explain,
        }


class Demo:
    """A demonstration of *size*; *say* gets progress messages.

    Each burst has a lab of its own, so that no burst affects another. History is exported before the measured burst is
    submitted anywhere, and is the daemon's only input.
    """

    def __init__(self, size: Size = FULL, print_line: Say = lambda line: None) -> None:
        self._size, self._print = size, print_line
        self._earlier, self._measured = bursts(size.jobs, size.longest_s)

    def run(self) -> Shown:
        """Run all of it; `NoLab` where Slurm cannot run. Leaves nothing behind, however it ends."""
        size = self._size
        self._print(f"About {size.minutes} min; three private Slurms one after the other, gone when this ends.")
        history = self._history()
        stock = self._stock()
        steered, job_id = self._steered(history)
        return Shown(
            size.jobs,
            len(history),
            BurstSummary.of(stock),
            BurstSummary.of(steered),
            job_id.job_id,
            job_id.why,
            job_id.explain,
        )

    def _history(self) -> OutcomeTable:
        """Return an earlier burst, read by slurmsched's import from sacct; users by their names in the demo."""
        self._print("1/3 history: an earlier burst, on twice the GPUs since it is not measured")
        with fresh_lab(2 * GPUS) as lab:
            outcomes_of(lab, self._burst(lab, self._earlier))
            program = Slurmsched(lab)
            program.run("db", "upgrade")
            self._print("  " + program.run("history", "import", "--days", "1").strip())
            return program.history(users={lab.user(name): name for name in USERS})

    def _stock(self) -> OutcomeTable:
        self._print("2/3 the measured burst under stock Slurm: multifactor priorities and backfill")
        with fresh_lab() as lab:
            occupy(lab)
            return outcomes_of(lab, self._burst(lab, self._measured))

    def _steered(self, history: OutcomeTable) -> tuple[OutcomeTable, _Questions]:
        self._print("3/3 the same burst with slurmsched in act mode, ordering by GPUs x forecast runtime")
        with fresh_lab() as lab:
            program = Slurmsched(lab)
            program.remember(history, users={name: lab.user(name) for name in USERS})
            questions = _Questions(program, lab, self._size.asked_after)
            with program.steering():
                first = self._size.asked_after == 0
                busy = occupy(lab, PATIENCE_S) if first else occupy(lab)
                jobs = self._burst(lab, self._measured, questions, busy if first else ())
            return outcomes_of(lab, jobs), questions

    def _burst(
        self,
        lab: Lab,
        burst: Sequence[Submission],
        questions: _Questions | None = None,
        busy: Sequence[int] = (),
    ) -> list[int]:
        """Submit the burst and wait for its end; the jobs *busy* leave their GPUs to it after the questions."""
        jobs = submit(lab, burst)
        self._print(f"  {len(jobs)} jobs of {len({job.user for job in burst})} users submitted")
        if questions and busy:
            wait_until(lambda: questions.asked(0), PATIENCE_S, "answers about a waiting job", every_s=0.5)
            free(lab, busy)
        watch(lab, len(jobs), self._print, questions.ask_when_due if questions else lambda ended: None)
        return jobs


class _Questions:
    """An ordinary user's queries after *due* jobs of the burst, about a job that still has long to wait."""

    def __init__(self, program: Slurmsched, lab: Lab, due: int) -> None:
        self._program = program
        self._users = {lab.user(name): name for name in USERS}
        self._due = due
        self._done = False
        self.job_id = 0
        self.why = self.explain = ""

    def asked(self, ended: int) -> bool:
        """Query if that is due; return True once there are answers about a job that still waits."""
        self.ask_when_due(ended)
        return self._done

    def ask_when_due(self, ended: int) -> None:
        """Query the last job of the queue; another one, later, if it starts between the queries."""
        if self._done or ended < self._due or not (waiting := self._waiting()):
            return
        row = waiting[-1]
        job_id, owner = row["job_id"], self._users[row["user"]]
        try:
            why, explain = (self._program.run(word, str(job_id), user=owner).strip() for word in ("why", "explain"))
        except LabError:
            if self._waits(job_id):
                raise
            return  # the job has ended, so there is no answer about it
        self.job_id, self.why, self.explain = job_id, why, explain
        self._done = self._waits(job_id)

    def _waits(self, job_id: int) -> bool:
        return any(row["job_id"] == job_id for row in self._waiting())

    def _waiting(self) -> list[dict[str, Any]]:
        """Return the users' jobs of the queue as one of them sees it, soonest first.

        The queue was read a cycle ago: jobs that occupy the GPUs by now may stand in it.
        """
        queue = json.loads(self._program.run("queue", "--json", user=next(iter(USERS))))["queue"]
        return [row for row in queue if row["rank"] and row["user"] in self._users]
