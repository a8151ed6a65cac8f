"""Sweeps: many runs, one after the other or in many processes; results come as they finish."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

from ..cluster.text.plural import count
from ..errors import ConfigError, SlurmschedError
from .case import Case
from .cluster_spec import ClusterSpec
from .replay import Replay
from .report.metrics import Summary, summary, violations
from .research_parts import task_replay, training_replay
from .setup import LEARNT, Setup
from .speeds.performance import Performance
from .worker_pool import RunFailed, Workers, crew
from .workload.workload import EVERY_JOB, Workload, workload


@dataclass(frozen=True)
class Cell:
    """A run of one policy on one case."""

    case: Case
    setup: Setup

    def __str__(self) -> str:
        return f"{self.case}, policy {self.setup.label}"


@dataclass(frozen=True)
class CellResult:
    """The result of a cell."""

    cell: Cell
    summary: Summary
    replay: Replay


def sweep(
    cells: Sequence[Cell], fleet: ClusterSpec, workers: Workers | None = None, *, check: bool = False
) -> Iterator[tuple[int, CellResult]]:
    """Make all runs; yield each with its index in *cells*, in any order. Without *workers*, in this process.

    With *check*, an infeasible run or a broken state of the simulator is an error. RunFailed names the cell that
    failed; ConfigError says what to install, or that there is no Dask scheduler.
    """
    if workers is None or len(cells) < 2:
        for place, cell in enumerate(cells):
            yield place, _run(cell, fleet, check)
        return
    with crew(workers) as spread, closing(spread(partial(_sent, fleet=fleet, check=check), cells)) as sent:
        for place, run in sent:
            if isinstance(run, RunFailed):
                raise run
            jobs = _jobs(cells[place], fleet)[0]
            yield place, replace(run, cell=cells[place], replay=replace(run.replay, workload=jobs))


def _sent(cell: Cell, fleet: ClusterSpec, check: bool) -> CellResult | RunFailed:
    """Make a run in another process, and return it without the jobs, which the caller has.

    A failure is returned, not raised: Dask would write its traceback to the terminal.
    """
    try:
        run = _run(cell, fleet, check)
    except RunFailed as error:
        return error
    return replace(run, replay=replace(run.replay, workload=workload(0)))


def _jobs(cell: Cell, fleet: ClusterSpec) -> tuple[Workload, Performance | None]:
    """Return the jobs to replay, and how fast they train if they do: then their runtimes are those they have alone."""
    jobs = cell.case.trace().workload
    if cell.case.speeds is None:
        return jobs, None
    performance = cell.case.speeds.performance(jobs, fleet)
    return replace(jobs, runtime_s=performance.runtime_s), performance


def _run(cell: Cell, fleet: ClusterSpec, check: bool) -> CellResult:
    try:
        jobs, performance = _jobs(cell, fleet)
        if performance is not None and cell.setup.scaling:
            replay = training_replay()(jobs, fleet, cell.setup, performance, check=check)
        elif cell.setup.executor == "tasks":
            replay = task_replay()(jobs, fleet, cell.setup, check=check)
        else:
            replay = _scheduled(cell, jobs, fleet, check, performance)
        replay = replace(replay, measured=cell.case.measured())
        if check and performance is None and cell.setup.executor != "tasks":
            _verify(replay, cell.setup.executor == "direct" and fleet.equal)
        return CellResult(cell, summary(replay), replace(replay, segments=None))
    except SlurmschedError as error:
        raise RunFailed(f"{cell}: {error}") from error
    except AssertionError as error:
        raise RunFailed(f"{cell}: this cannot have happened: {error}") from error
    except Exception as error:
        error.add_note(f"in the run {cell}")
        raise


def _scheduled(cell: Cell, jobs: Workload, fleet: ClusterSpec, check: bool, performance: Performance | None) -> Replay:
    """Replay jobs with a runtime of their own; its module is imported here, since jobs that train do not need it."""
    from .run import simulate
    from .speeds.type_speeds import TypedJobs

    case, setup = cell.case, cell.setup
    pool = setup.executor == "direct" and fleet.equal
    if pool and (idle := int((jobs.gpus == 0).sum())):
        raise ConfigError(
            f"{count(idle, 'job')} without GPUs, and only GPUs of these nodes are known: "
            "try --cluster, or executor slurm"
        )
    linked = setup.executor == "direct" and bool(fleet.links) and setup.placement != "pool"
    return simulate(
        jobs,
        fleet,
        setup,
        learnt=case.foresight(setup.forecast) if setup.forecast in LEARNT else None,
        segments=(check and pool) or linked,
        check=check,
        awaited=case.measured() if case.until_measured else EVERY_JOB,
        earlier=case.trace().earlier,
        past=case.trace().past,
        types=performance if isinstance(performance, TypedJobs) else None,
    )


def _verify(replay: Replay, pool: bool) -> None:
    """Raise RunFailed if *replay* is not feasible; on a *pool* of equal nodes it has the GPUs of every run."""
    from .report.feasibility import impossible

    if found := violations(replay) + (impossible(replay) if pool else []):
        raise RunFailed(f"this cannot have happened: {'; '.join(found)}")
