"""PCS's figures: ``python -m tests.bench.pcs``, reference rows, search and the error of performance first.

Each part can be had alone: ``reference``, ``search``, ``automl``, ``workload-2``, ``mistaken``, ``mismatch``. With
``--write FOLDER`` the figures of ``automl`` and ``workload-2`` are drawn.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from slurmsched.policies.ordering.wfq import Wfq
from slurmsched.research.elastic.applications import Applications, applications, read_speedups
from slurmsched.research.elastic.experiment import POLICIES, ElasticReplay, Policy, replay
from slurmsched.research.elastic.samples import automl
from slurmsched.research.pareto.measurement import Corrected
from slurmsched.research.pareto.objectives import DEFAULT, objectives_of
from slurmsched.research.pareto.search import Front, Point
from slurmsched.research.pareto.workloads import SearchSpec, search_on
from slurmsched.simulator.traces.source import Source
from slurmsched.simulator.worker_pool import Workers

from .pcs_figures import spread, tradeoff

Judged = Policy | Corrected

DATA = Path(os.environ.get("SLURMSCHED_TRACES", Path(__file__).parents[3] / "shared" / "data"))
GPUS = 64
TESTBED = 16
SEEDS = range(5)
RUNS = 5
DRAWN_SAMPLES = SearchSpec(objectives_of(DEFAULT), GPUS, 0.9, jobs=1000, evaluations=1000, population=20)
WITHIN = 4.0  #: times the mean JCT of the fastest; what is slower is not picked

PUBLISHED = {
    "PCS-jct": Wfq((1182, 29225, 752852, math.inf), (5 / 11, 276 / 1001, 24 / 143, 102 / 1001), 0.884013, 0.742860),
    "PCS-bal": Wfq((3516, 437700, math.inf), (147 / 1000, 36 / 125, 113 / 200), 0.724092, 0.362806),
    "PCS-pred": Wfq((25469, 5123638, math.inf), (941 / 1000, 7 / 125, 3 / 1000), 0.545920, 0.095946),
}
THEIRS = {
    "fifo": (1134525, 1585164, 0.0, 0.0),
    "srsf": (152675, 2195583, 9.40, 158.0),
    "afs-l": (158001, 1771050, 10.26, 118.0),
    "themis": (166610, 2291881, 32.07, 142.2),
    "PCS-jct": (181423, 1600020, 6.10, 58.2),
    "PCS-bal": (208656, 1472817, 5.26, 76.6),
    "PCS-pred": (284924, 2075445, 2.08, 44.0),
}


def trace(name: str = "ee9e8c") -> Applications:
    """One of the traces that came with PCS."""
    known = read_speedups(DATA / "pcs_speedups.json")
    return applications(Source.of(str(DATA / f"pcs_trace_{name}.csv"), GPUS).load().workload, known)


def bench_reference() -> None:
    """The rows of the reference, with the time of a run that predicts at every arrival."""
    apps = trace().take(slice(0, 301))
    print("first 301 applications of ee9e8c, 64 GPUs, a prediction at every arrival (theirs in brackets)")
    every: dict[str, Policy] = {name: name for name in POLICIES} | PUBLISHED
    for name, policy in every.items():
        played = replay(apps, GPUS, policy)
        took_s = statistics.median(_timed(lambda policy=policy: replay(apps, GPUS, policy)) for _ in range(RUNS))
        mean, p99, error, worst = THEIRS.get(name, (math.nan,) * 4)
        print(
            f"  {name:<11} JCT {played.jct_s.mean():9.0f} ({mean:9.0f})  p99 {_p99(played.jct_s):9.0f} ({p99:9.0f})"
            f"  error % {100 * played.error.mean():5.2f} ({error:5.2f})"
            f"  p99 {100 * _p99(played.error):5.1f} ({worst:5.1f})  {1000 * took_s:6.1f} ms"
        )


def bench_search() -> None:
    """A thousand simulations of a thousand jobs, here and in one and two processes of loky and of Dask."""
    for workers in (None, *(Workers(backend, number) for backend in ("loky", "dask") for number in (1, 2))):
        search, _ = search_on(trace(), DRAWN_SAMPLES)
        began, cpu = time.perf_counter(), time.process_time()
        front = search.run(workers)
        took_s, spent_s = time.perf_counter() - began, time.process_time() - cpu
        where = f"{workers.backend}, {workers.number} processes" if workers else "here"
        print(
            f"search: {front.simulations:,} simulations of 1,000 jobs at load 0.9 on {GPUS} GPUs, {where}:"
            f" {took_s:.1f} s, {spent_s:.1f} s of CPU in this process (target: 60 s); {len(front.points)} points",
            flush=True,
        )
    _show(front)


def bench_automl(folder: Path | None = None) -> None:
    """Error against performance first: AFS's p90 JCT within 1.1, and half its error (figures 4, 5)."""
    print(f"AutoML workload, {TESTBED} GPUs, load 0.9, 1,000 jobs, means of {len(SEEDS)} seeds")
    front = _automl_front(0.9)
    rows: dict[str, Judged] = {name: name for name in POLICIES}
    picked = {name: _judged(point) for name, point in _picked(front).items()}
    tests = [automl(1000, TESTBED, 0.9, 100 + seed) for seed in SEEDS]
    played = _compare(tests, TESTBED, rows | picked)
    if folder is not None:
        errors = {name: 100 * np.concatenate([one.error for one in each]) for name, each in played.items()}
        (folder / "pcs-errors.svg").write_text(spread("AutoML jobs: who errs by how much", errors, 300))
        spots = {name: (_p90(each), _mean(each, "error")) for name, each in played.items()}
        title = "AutoML jobs: slow jobs and mean error"
        (folder / "pcs-automl.svg").write_text(tradeoff(title, "90th percentile of JCT (s)", spots, (4000, 50)))


def bench_workload_2(folder: Path | None = None) -> None:
    """The same on ee9e8c, where speed-ups are not linear (figure 7)."""
    print(f"ee9e8c resampled, {GPUS} GPUs, load 0.9, 1,000 jobs, held-out samples")
    search, _ = search_on(trace(), DRAWN_SAMPLES)
    front = search.run()
    rows: dict[str, Judged] = {name: name for name in POLICIES} | PUBLISHED
    picked = {name: _judged(point) for name, point in _picked(front).items()}
    played = _compare(search.test.samples, GPUS, rows | picked)
    if folder is not None:
        spots = {name: (_hours(each), _mean(each, "error")) for name, each in played.items() if name != "fifo"}
        title = "ee9e8c: mean JCT and mean error"
        (folder / "pcs-ee9e8c.svg").write_text(tradeoff(title, "mean JCT (hours)", spots, (120, 10)))


def bench_mistaken() -> None:
    """Figures 10a and 10b: sizes known up to a share, against AFS that knows them."""
    print("sizes mistaken by up to a share: mean error of FIFO and PCS, mean JCT over that of AFS with true sizes")
    front = _automl_front(0.9)
    fast = _judged(_picked(front)["found, fastest"])
    tests = [automl(1000, TESTBED, 0.9, 200 + seed) for seed in SEEDS]
    afs_s = np.mean([replay(apps, TESTBED, "afs-l").jct_s.mean() for apps in tests])
    for off in (0.0, 0.05, 0.1, 0.2, 0.3, 0.4):
        told = [np.random.default_rng(seed).uniform(1 - off, 1 + off, 1000) for seed in SEEDS]
        fifo = [replay(apps, TESTBED, "fifo", size_factor=one) for apps, one in zip(tests, told, strict=True)]
        ours = [_played(apps, TESTBED, fast, one) for apps, one in zip(tests, told, strict=True)]
        jct_s = np.mean([played.jct_s.mean() for played in ours])
        print(
            f"  {100 * off:3.0f} %  error FIFO {_mean(fifo, 'error'):5.1f} %  PCS {_mean(ours, 'error'):5.1f} %"
            f"  JCT of PCS over AFS {jct_s / afs_s:.3f} (target: 1.05)"
        )


def bench_mismatch() -> None:
    """Figure 10c: settings found at load 0.6 on a system at 0.8."""
    there, here = _automl_front(0.6), _automl_front(0.8)
    tests = [automl(1000, TESTBED, 0.8, 300 + seed) for seed in SEEDS]
    real = np.array([_values(tests, point) for point in here.points])
    moved = np.array([_values(tests, point) for point in there.points])
    scale = real.max(axis=0) - real.min(axis=0)
    off = np.array([np.linalg.norm((real - one) / scale, axis=1).min() for one in moved])
    print(
        f"load mismatch: of {len(moved)} settings found at load 0.6, {100 * np.mean(off <= 0.1):.0f} % are within 10 %"
        " of the nearest point of the front at 0.8 (paper: 75 %)"
    )


def _automl_front(load: float) -> Front:
    history = automl(4000, TESTBED, load, 1)
    search, _ = search_on(history, replace(DRAWN_SAMPLES, gpus=TESTBED, load=load, delta=0.1))
    return search.run()


def _picked(front: Front) -> dict[str, Point]:
    """The fastest found, the surest that is not too slow, and the one between; one class is not picked."""
    able = [point for point in front.points if point.setting and len(point.setting.weights) > 1]
    able = [point for point in able if point.train[0] <= WITHIN * able[0].train[0]]
    values = np.array([point.train for point in able])
    off = np.linalg.norm((values - values.min(axis=0)) / np.maximum(np.ptp(values, axis=0), 1e-9), axis=1)
    return {"found, fastest": able[0], "found, between": able[int(off.argmin())], "found, surest": able[-1]}


def _judged(point: Point) -> Corrected:
    assert point.setting is not None
    assert point.correction is not None
    return Corrected(point.setting, point.correction)


def _played(apps: Applications, gpus: int, judged: Judged, size_factor: np.ndarray | None = None) -> ElasticReplay:
    if isinstance(judged, Corrected):
        return judged.correction(replay(apps, gpus, judged.policy, size_factor=size_factor))
    return replay(apps, gpus, judged, size_factor=size_factor)


def _compare(tests: Sequence[Applications], gpus: int, rows: Mapping[str, Judged]) -> dict[str, list[ElasticReplay]]:
    every = {name: [_played(apps, gpus, policy) for apps in tests] for name, policy in rows.items()}
    for name, played in every.items():
        print(
            f"  {name:<15} JCT mean {np.mean([one.jct_s.mean() for one in played]):9.0f} s  p90 {_p90(played):9.0f} s"
            f"  error mean {_mean(played, 'error'):6.2f} %  p90 {_mean(played, 'error', 90):6.1f} %"
            f"  p99 {_mean(played, 'error', 99):7.1f} %  unfairness {_mean(played, 'unfairness'):8.1f} %"
        )
    return every


def _p90(played: Sequence[ElasticReplay]) -> float:
    return float(np.mean([np.percentile(one.jct_s, 90) for one in played]))


def _hours(played: Sequence[ElasticReplay]) -> float:
    return float(np.mean([one.jct_s.mean() for one in played])) / 3600


def _values(tests: Sequence[Applications], point: Point) -> list[float]:
    played = [_played(apps, TESTBED, _judged(point)) for apps in tests]
    return [float(np.mean([one.jct_s.mean() for one in played])), _mean(played, "error")]


def _mean(played: Sequence[ElasticReplay], what: str, percentile: float | None = None) -> float:
    """Per cent: the mean over replays of a mean or percentile."""
    rows = [getattr(one, what) for one in played]
    return 100 * float(np.mean([row.mean() if percentile is None else np.percentile(row, percentile) for row in rows]))


def _show(front: Front) -> None:
    for point in (*front.points, *front.extremes):
        print(f"    {_named(point)}")


def _named(point: Point) -> str:
    jct_s, error = point.test
    setting = point.setting
    if setting is None:
        said = point.name
    else:
        said = f"{len(setting.weights)} classes, zeta {setting.zeta:.2f} delta {setting.delta:.2f}"
        said += f" overtake {setting.overtake:.2g}"
    return f"{said:<60} JCT {jct_s:9.0f} s  error {100 * error:6.2f} %"


def _p99(values: np.ndarray) -> float:
    return float(np.percentile(values, 99))


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


PARTS: dict[str, Callable[[], None]] = {
    "reference": bench_reference,
    "search": bench_search,
    "automl": bench_automl,
    "workload-2": bench_workload_2,
    "mistaken": bench_mistaken,
    "mismatch": bench_mismatch,
}
DRAWN = {"automl": bench_automl, "workload-2": bench_workload_2}


def main() -> None:
    """The parts asked for, else all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="where to write the SVG files")
    said = parser.parse_args()
    for name in said.parts or PARTS:
        if said.write is not None and name in DRAWN:
            DRAWN[name](said.write)
        else:
            PARTS[name]()
        print(flush=True)


if __name__ == "__main__":
    main()
