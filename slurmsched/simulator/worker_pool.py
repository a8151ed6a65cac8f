"""Parallel execution in many processes: of this machine (loky), or of a Dask cluster."""

from __future__ import annotations

import importlib
import logging
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..errors import ConfigError, MissingExtra, SlurmschedError
from ..interpreter import safe_children

BACKENDS = ("loky", "dask")
_PATIENCE_S = 10.0  #: time to wait for a Dask scheduler
_EXTRAS = {"joblib": "sweep", "distributed": "dask"}


class RunFailed(SlurmschedError):
    """A run failed; the text names it."""


@dataclass(frozen=True)
class Workers:
    """The backend of parallel runs: processes of this machine (loky), or a Dask cluster."""

    backend: str = "loky"  #: one of BACKENDS
    number: int | None = None  #: processes; None for as many as there are CPUs
    scheduler: str = ""  #: address of a Dask scheduler; without it a Dask cluster is started on this machine


Spread = Callable[[Callable[[Any], Any], Sequence[Any]], Generator[tuple[int, Any], None, None]]
"""Applies the first to each of the second; yields each result with its index, in any order.

RunFailed where a process died. The function and its arguments go to other processes, so they must pickle.
"""


@contextmanager
def crew(workers: Workers | None) -> Iterator[Spread]:
    """Provide a function that runs jobs in parallel, as often as needed; without *workers*, in this process.

    ConfigError says what to install, or that there is no Dask scheduler.
    """
    if workers is None:
        yield _here
    elif workers.backend == "loky":
        yield lambda do, things: _loky(workers.number or -1, do, things)
    elif workers.backend == "dask":
        # Not through joblib, whose Dask backend waits for ever when a worker dies.
        distributed = _needed("distributed")
        logging.getLogger("distributed").setLevel(logging.WARNING)  # it sets itself to INFO on import
        with _client(distributed, workers) as client:
            yield lambda do, things: _dask(distributed, client, do, things)
    else:
        raise ConfigError(f"backend {workers.backend!r} is not known; there are: {', '.join(BACKENDS)}")


def _here(do: Callable[[Any], Any], things: Sequence[Any]) -> Generator[tuple[int, Any], None, None]:
    for place, thing in enumerate(things):
        yield place, do(thing)


def _loky(number: int, do: Callable[[Any], Any], things: Sequence[Any]) -> Generator[tuple[int, Any], None, None]:
    joblib = _needed("joblib")
    executor = importlib.import_module("joblib.externals.loky.process_executor")
    with safe_children():
        parallel = joblib.Parallel(number, "loky", return_as="generator_unordered", batch_size=1)
        made = parallel(joblib.delayed(_placed)(do, place, thing) for place, thing in enumerate(things))
        try:
            for one in made:  # noqa: UP028  a delegated generator would be closed before the warning is silenced
                yield one
        except executor.TerminatedWorkerError as error:
            raise RunFailed("a process that made runs died, perhaps for want of memory: try fewer --workers") from error
        finally:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # it warns about ending what still runs, which is intended
                made.close()


def _dask(
    distributed: Any, client: Any, do: Callable[[Any], Any], things: Sequence[Any]
) -> Generator[tuple[int, Any], None, None]:
    # Not scattered: scattered data is lost with the worker that holds it.
    futures = [client.submit(_placed, do, place, thing, pure=False) for place, thing in enumerate(things)]
    done = distributed.as_completed(futures)
    del futures  # a result without a reference is released
    for future in done:
        try:
            yield future.result()
        except distributed.KilledWorker as error:
            raise RunFailed("Dask workers that made runs died, perhaps for want of memory") from error


def _placed(do: Callable[[Any], Any], place: int, thing: Any) -> tuple[int, Any]:
    return place, do(thing)


@contextmanager
def _client(distributed: Any, workers: Workers) -> Iterator[Any]:
    if not workers.scheduler:
        with (
            safe_children(),
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
        raise MissingExtra(f"runs in several processes need {module}", extra) from error
