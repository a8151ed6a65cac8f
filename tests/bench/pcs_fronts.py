"""Fronts against PCS's published settings: ``python -m tests.bench.pcs_fronts [--artifact FOLDER]``.

Searches on windows of the arrivals of each workload, as they were, and counts the published points that a point of the
front dominates on the windows held out. With ``--artifact``, a checkout of PCS's artifact, all of its workloads with
settings of their own are judged; without it the two traces at hand, by the settings published for ee9e8c.
"""

from __future__ import annotations

import argparse
import io
import pickle
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np

from slurmsched.policies.ordering.wfq import Wfq
from slurmsched.research.elastic.applications import Applications, applications, read_speedups
from slurmsched.research.pareto.measurement import Bench, Corrected
from slurmsched.research.pareto.objectives import DEFAULT, objectives_of
from slurmsched.research.pareto.search import Front
from slurmsched.research.pareto.space import SearchSpace
from slurmsched.research.pareto.workloads import SearchSpec, search_on
from slurmsched.simulator.traces.source import Source
from slurmsched.simulator.worker_pool import Workers

from .pcs import DATA, GPUS, PUBLISHED, trace

AT_HAND = ("ee9e8c", "0e4a51")
FIRST = 301  #: applications of the reference rows


@dataclass(frozen=True)
class Tally:
    """Published points that were dominated, of how many."""

    held_out: int = 0
    corrected: int = 0  #: with the published settings' own predictions corrected as ours are
    first: int = 0  #: on the first applications, which the search may have seen in part
    bound: int = 0  #: by a front searched on the windows held out themselves
    of: int = 0

    def __add__(self, other: Tally) -> Tally:
        """Return the sum."""
        return Tally(*(one + two for one, two in zip(_row(self), _row(other), strict=True)))


def _row(tally: Tally) -> tuple[int, ...]:
    return tally.held_out, tally.corrected, tally.first, tally.bound, tally.of


def judge(name: str, seed: int, evaluations: int, artifact: Path | None, workers: Workers | None, bound: bool) -> Tally:
    """Search on *name* with *seed*, print a line for each published point, and count."""
    apps, settings = workload(name, artifact)
    search, _ = search_on(apps, SearchSpec(objectives_of(DEFAULT), GPUS, seed=seed, evaluations=evaluations))
    began = time.perf_counter()
    front = search.run(workers)
    took_s = time.perf_counter() - began
    jobs = len(search.test.samples[0])
    print(f"{name} seed {seed}: windows of {jobs} jobs, {len(front.points)} points, {took_s:.0f} s", flush=True)
    ideal = None
    if bound:
        sizes = np.concatenate([one.service_s for one in search.test.samples])
        ideal = replace(search, space=SearchSpace.of(sizes), train=search.test).run(workers)
    first = Bench((apps.take(slice(0, FIRST)),), GPUS, search.test.objectives)
    tally = Tally()
    for setting, wfq in settings.items():
        theirs, learnt = search.test.measure(wfq), Corrected(wfq, search.train.learn(wfq)[1])
        found = _dominating(_held_out(front), theirs)
        one = Tally(
            found > 0,
            _dominating(_held_out(front), search.test.measure(learnt)) > 0,
            _dominating(_on(front, first), first.measure(wfq)) > 0,
            ideal is not None and _dominating(np.array([point.train for point in ideal.points]), theirs) > 0,
            1,
        )
        tally += one
        margin = np.min(np.max(_held_out(front) / np.maximum(theirs, 1e-12), axis=1))
        print(
            f"  {setting:<8} JCT {theirs[0]:8.0f} s, error {100 * theirs[1]:5.2f} %: dominated by {found} points,"
            f" the best at {margin:.3f} of it in both; corrected {_yes(one.corrected)}, first {FIRST} {_yes(one.first)}"
            + (f", bound {_yes(one.bound)}" if bound else ""),
            flush=True,
        )
    return tally


def workload(name: str, artifact: Path | None) -> tuple[Applications, Mapping[str, Wfq]]:
    """Return the applications of a workload, and the settings published for it."""
    if artifact is None:
        return trace(name), PUBLISHED
    source = Source.of(str(artifact / f"simulation/traces/trace_{name}.csv"), GPUS)
    apps = applications(source.load().workload, read_speedups(DATA / "pcs_speedups.json"))
    return apps, {f"PCS-{kind}": _published(artifact, name, kind) for kind in ("jct", "bal", "pred")}


def _published(artifact: Path, name: str, kind: str) -> Wfq:
    path = artifact / f"data/PCS_configs/PCS_config_{name}_{kind}.pkl"
    read = _Plain(io.BytesIO(path.read_bytes())).load()
    rates = [float(rate) for rate in read["class_rates"]]
    thresholds = tuple(map(float, read["class_thresholds"]))
    weights = tuple(rate / sum(rates) for rate in rates)
    return Wfq(thresholds, weights, float(read["clip_demand_factor"]), float(read["delta"]))


class _Plain(pickle.Unpickler):
    """Reads plain values and fractions alone, so that a foreign file cannot run anything."""

    def find_class(self, module: str, name: str) -> type:
        if (module, name) != ("fractions", "Fraction"):
            raise pickle.UnpicklingError(f"{module}.{name} is no plain value")
        return Fraction


def _names(artifact: Path | None) -> Iterator[str]:
    if artifact is None:
        yield from AT_HAND
        return
    for path in sorted((artifact / "simulation/traces").glob("trace_*.csv")):
        name = path.stem.removeprefix("trace_")
        if (artifact / f"data/PCS_configs/PCS_config_{name}_jct.pkl").is_file():
            yield name


def _held_out(front: Front) -> np.ndarray:
    return np.array([point.test for point in front.points])


def _on(front: Front, bench: Bench) -> np.ndarray:
    pairs = [(point.setting, point.correction) for point in front.points]
    return np.array([bench.measure(Corrected(wfq, correction)) for wfq, correction in pairs if wfq and correction])


def _dominating(points: np.ndarray, theirs: list[float]) -> int:
    better = np.all(points <= theirs, axis=1) & np.any(points < theirs, axis=1)
    return int(better.sum())


def _yes(value: int) -> str:
    return "yes" if value else "no"


def main() -> None:
    """Judge the workloads with each seed, and sum up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="WORKLOAD", help="default: every one with settings")
    parser.add_argument("--artifact", type=Path, metavar="FOLDER", help="a checkout of PCS's artifact")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1])
    parser.add_argument("--workers", type=int, default=2, help="processes; 0 for none")
    parser.add_argument("--evaluations", type=int, default=SearchSpec.evaluations, help="simulations of a search")
    parser.add_argument("--bound", action="store_true", help="search on the windows held out as well")
    said = parser.parse_args()
    workers = Workers("loky", said.workers) if said.workers else None
    total = Tally()
    for seed in said.seeds:
        for name in said.names or _names(said.artifact):
            total += judge(name, seed, said.evaluations, said.artifact, workers, said.bound)
    print(
        f"dominated on the windows held out: {total.held_out} of {total.of}; with their predictions corrected too:"
        f" {total.corrected}; on the first {FIRST} applications: {total.first}"
        + (f"; bound: {total.bound}" if said.bound else "")
    )


if __name__ == "__main__":
    main()
