"""Sweeps: many runs, one after the other or in many processes; results come as they finish."""

from __future__ import annotations

import importlib
import logging
import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from ..errors import ConfigError, SlurmschedError
from .case import Case
from .experiment import LEARNT, Replay, Setup, simulate
from .fleet import Fleet
from .pool.segments import impossible
from .report.metrics import Summary, summary, violations
from .workload import workload

BACKENDS = ("loky", "dask")
_PATIENCE_S = 10.0  #: how long a Dask scheduler is waited for
_EXTRAS = {"joblib": "sweep", "distributed": "dask"}


class RunFailed(SlurmschedError):
    """A run of a sweep could not be made; the text names it."""


@dataclass(frozen=True)
class Cell:
    """One run: a policy on a case."""

    case: Case
    setup: Setup

    def __str__(self) -> str:
        return f"{self.case}, policy {self.setup.label}"


@dataclass(frozen=True)
class Run:
    """What came of a cell."""

    cell: Cell
    summary: Summary
    replay: Replay


@dataclass(frozen=True)
class Workers:
    """Who makes the runs: processes of this machine (loky), or a Dask cluster."""

    backend: str = "loky"  #: one of BACKENDS
    number: int | None = None  #: processes; None for as many as there are CPUs
    scheduler: str = ""  #: address of a Dask scheduler; without it a Dask cluster is started on this machine


Sent = Generator[tuple[int, Run | RunFailed], None, None]


def sweep(
    cells: Sequence[Cell], fleet: Fleet, workers: Workers | None = None, *, check: bool = False
) -> Iterator[tuple[int, Run]]:
    """Make all runs; yields each with its place in *cells*, in any order. Without *workers* in this process.

    With *check* a run that cannot have happened is an error. RunFailed names the cell that could not be made;
    ConfigError says what to install, or that there is no Dask scheduler.
    """
    if workers is None or len(cells) < 2:
        for place, cell in enumerate(cells):
            yield place, _run(cell, fleet, check)
        return
    if workers.backend not in BACKENDS:
        raise ConfigError(f"backend {workers.backend!r} is not known; there are: {', '.join(BACKENDS)}")
    with closing((_dask if workers.backend == "dask" else _loky)(workers, cells, fleet, check)) as sent:
        for place, run in sent:
            if isinstance(run, RunFailed):
                raise run
            jobs = cells[place].case.trace().workload
            yield place, replace(run, cell=cells[place], replay=replace(run.replay, workload=jobs))


def _loky(workers: Workers, cells: Sequence[Cell], fleet: Fleet, check: bool) -> Sent:
    joblib = _needed("joblib")
    executor = importlib.import_module("joblib.externals.loky.process_executor")
    parallel = joblib.Parallel(workers.number or -1, "loky", return_as="generator_unordered", batch_size=1)
    made = parallel(joblib.delayed(_sent)(place, cell, fleet, check) for place, cell in enumerate(cells))
    try:
        for run in made:  # noqa: UP028  a delegated generator would be closed before the warning is silenced
            yield run
    except executor.TerminatedWorkerError as error:
        raise RunFailed("a process that made runs died, perhaps for want of memory: try fewer --workers") from error
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # says that it ends what still runs, as it is to
            made.close()


def _dask(workers: Workers, cells: Sequence[Cell], fleet: Fleet, check: bool) -> Sent:
    # Not through joblib, whose Dask backend waits for ever when a worker dies.
    distributed = _needed("distributed")
    logging.getLogger("distributed").setLevel(logging.WARNING)  # it sets itself to INFO on import
    with _client(distributed, workers) as client:
        # Not scattered: what is scattered is lost with the worker that holds it.
        futures = [client.submit(_sent, place, cell, fleet, check, pure=False) for place, cell in enumerate(cells)]
        done = distributed.as_completed(futures)
        del futures  # a result that nobody holds is let go
        for future in done:
            try:
                yield future.result()
            except distributed.KilledWorker as error:
                raise RunFailed("Dask workers that made runs died, perhaps for want of memory") from error


@contextmanager
def _client(distributed: Any, workers: Workers) -> Iterator[Any]:
    if not workers.scheduler:
        with (
            distributed.LocalCluster(
                n_workers=workers.number, threads_per_worker=1, memory_limit=None, dashboard_address="127.0.0.1:0"
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client
        return
    try:
        client = distributed.Client(workers.scheduler, timeout=_PATIENCE_S)
    except (OSError, ValueError) as error:
        raise ConfigError(f"no Dask scheduler answers at {workers.scheduler}: {error}") from error
    with client:
        try:
            client.wait_for_workers(1, timeout=_PATIENCE_S)
        except TimeoutError as error:
            raise ConfigError(f"the Dask scheduler at {workers.scheduler} has no workers") from error
        yield client


def _needed(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        extra = _EXTRAS[module]
        raise ConfigError(
            f"runs in several processes need {module}, which is not installed (pip install 'slurmsched[{extra}]')"
        ) from error


def _sent(place: int, cell: Cell, fleet: Fleet, check: bool) -> tuple[int, Run | RunFailed]:
    """A run made elsewhere, without the jobs: whoever asked has them.

    A failure is handed back, not raised: Dask would write its traceback to the terminal.
    """
    try:
        run = _run(cell, fleet, check)
    except RunFailed as error:
        return place, error
    return place, replace(run, replay=replace(run.replay, workload=workload(0)))


def _run(cell: Cell, fleet: Fleet, check: bool) -> Run:
    try:
        jobs = cell.case.trace().workload
        pool = cell.setup.executor == "direct" and fleet.equal
        if pool and (idle := int((jobs.gpus == 0).sum())):
            raise ConfigError(
                f"{idle} jobs ask for no GPUs, and only GPUs of these nodes are known: try --cluster, or executor slurm"
            )
        known = cell.setup.forecast
        learnt = cell.case.foresight(known) if known in LEARNT else None
        replay = simulate(jobs, fleet, cell.setup, learnt=learnt, segments=check and pool)
        if check and (found := violations(replay) + (impossible(replay) if pool else [])):
            raise RunFailed(f"this cannot have happened: {'; '.join(found)}")
        return Run(cell, summary(replay), replace(replay, segments=None))
    except SlurmschedError as error:
        raise RunFailed(f"{cell}: {error}") from error
    except Exception as error:
        error.add_note(f"in the run {cell}")
        raise
