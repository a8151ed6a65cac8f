"""Sweeps: the same results wherever the runs are made."""

from __future__ import annotations

import os
import pickle
from dataclasses import asdict, replace

import pytest

from slurmsched.cluster.columns import FloatArray
from slurmsched.cluster.state import View
from slurmsched.errors import ConfigError
from slurmsched.policies.contract import Ordering
from slurmsched.simulator.case import Case
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.sweep import Cell, sweep
from slurmsched.simulator.traces.source import Source
from slurmsched.simulator.worker_pool import RunFailed, Workers

distributed = pytest.importorskip("distributed")
pytest.importorskip("joblib")

FLEET = ClusterSpec.of(2, 4)
SOURCE = Source.of("synthetic:150:1.1", 8)
SETUPS = (Setup.of("fifo"), Setup.of("srtf", restart_s=30.0), Setup.of("sjf", forecast="history"))
CELLS = [
    Cell(Case(SOURCE, seed, load), setup) for seed in (1, 2) for load in (1.0, 1.3) for setup in SETUPS
]  # fmt: skip


def results(workers: Workers | None) -> list[tuple[str, list[float]]]:
    """Figures and ends of all runs in the order of the cells."""
    found = dict(sweep(CELLS, FLEET, workers))
    assert sorted(found) == list(range(len(CELLS)))
    assert all(run.cell is CELLS[place] for place, run in found.items())
    assert all(len(run.replay.workload) == 150 for run in found.values())
    return [(repr(asdict(found[place].summary)), found[place].replay.end_s.tolist()) for place in range(len(CELLS))]


@pytest.fixture(scope="module")
def here() -> list[tuple[str, list[float]]]:
    return results(None)


def test_processes_give_the_same_results(here):
    assert results(Workers("loky", 2)) == here


def test_a_dask_cluster_of_two_processes_gives_the_same_results(here):
    assert results(Workers("dask", 2)) == here


@pytest.mark.soak
def test_a_dask_cluster_that_runs_already_gives_the_same_results(here):
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster:
        assert results(Workers("dask", scheduler=cluster.scheduler_address)) == here


def test_different_cells_differ(here):
    assert len({ends for ends, _ in here}) == len(CELLS)


# loky's own thread may look for a run that the end of the others has just taken away (KeyError in joblib 1.6).
@pytest.mark.filterwarnings(
    "ignore:Exception in thread ExecutorManagerThread:pytest.PytestUnhandledThreadExceptionWarning"
)
@pytest.mark.parametrize("workers", [None, Workers("loky", 2)])
def test_a_run_that_fails_is_named(workers):
    cells = [Cell(Case(SOURCE, 3, 1.5), Setup.of(name)) for name in ("fifo", "sjf")]
    with pytest.raises(RunFailed, match=r"synthetic:150:1.1, load 1.5, seed 3, policy (fifo|sjf): job \d+ asks for"):
        list(sweep(cells, ClusterSpec.of(1, 2), workers))


def die(view: View) -> FloatArray:
    os._exit(9)


def test_a_process_that_dies_is_no_hang_and_no_traceback():
    dying = replace(SETUPS[0], ordering=Ordering("dying", die, "", "never"))
    with pytest.raises(RunFailed, match="a process that made runs died"):
        list(sweep([Cell(CELLS[0].case, dying), *CELLS[:2]], FLEET, Workers("loky", 2)))


def test_one_run_is_made_in_this_process():
    """Where it were sent away, the unknown backend would be an error."""
    assert len(list(sweep(CELLS[:1], FLEET, Workers("none")))) == 1


def test_a_backend_that_is_not_known_is_refused():
    with pytest.raises(ConfigError, match="backend 'none' is not known; there are: loky, dask"):
        list(sweep(CELLS, FLEET, Workers("none")))


def test_a_scheduler_that_is_not_there_is_named():
    with pytest.raises(ConfigError, match="no Dask scheduler answers at nowhere://x"):
        list(sweep(CELLS, FLEET, Workers("dask", scheduler="nowhere://x")))


def test_jobs_without_gpus_need_a_model_of_cpus(tmp_path):
    path = tmp_path / "cpu.csv"
    path.write_text("submit_s,runtime_s,gpus\n0,10,0\n0,10,1\n")
    case = Case(Source.of(str(path), 8, cpu_jobs=True))
    with pytest.raises(RunFailed, match=r"1 job without GPUs, .* try --cluster, or executor slurm"):
        list(sweep([Cell(case, Setup.of("fifo"))], FLEET))


def test_a_cell_is_small_to_send():
    cell = replace(CELLS[0], case=replace(CELLS[0].case, source=Source.of("synthetic:100000", 8)))
    assert len(pickle.dumps(cell)) < 5000
