"""``python -m tests.bench.gaming [baseline] [trained] [LOG ...]``: what steering one's forecasts pays; many minutes.

``python -m tests.bench.gaming money [WAY ...] [STRATEGY ...] [SEED ...]``: what a pace, iterations, tickets, begin
times, deadlines, pieces and salloc pay beside the daemon's own cycle, and baiting beside steering, sizes and leases
(``tests/simulator/money.py``): the median gain of all sites with its interval, and the largest (``paired.py``).

A cheater's thirty three-hour jobs of a month are added to a log (``tests/simulator/gaming.py``), under honesty and
under each strategy, with and without records of overruns. The baseline learns every hour, the tables are trained every
fifteen days; both know only what had ended. Fleets are one pool whose size gives the load.
"""

from __future__ import annotations

import sys
from dataclasses import astuple, dataclass, replace
from pathlib import Path

import numpy as np

from slurmsched.cluster.forecast import Forecast
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.trace_forecasts import DAY_S, learnt, trained
from slurmsched.simulator.traces import read
from slurmsched.simulator.workload.workload import Workload
from tests.bench.machine import machine
from tests.simulator.gaming import HOUR_S, ORDERINGS, STRATEGIES, Gamed, Waits, gamed, honest, waits

DATA = Path(__file__).parents[3] / "shared" / "data"
MONTH_S = 30 * DAY_S
MODELS = ("baseline", "trained")
MONEY_SEEDS = (1, 2, 3, 4, 5)


@dataclass(frozen=True)
class Log:
    """A month of a log, what came before, and where it is replayed."""

    name: str
    jobs: Workload
    history: Workload
    fleet: ClusterSpec
    gpus: int  #: of each of the cheater's jobs

    @classmethod
    def of(cls, name: str, jobs: Workload, from_s: float, gpus: int, load: float = 0.95) -> Log:
        inside = (jobs.submit_s >= from_s) & (jobs.submit_s < from_s + MONTH_S)
        month = jobs.take(inside)
        used = float((month.gpus * month.runtime_s).sum()) / MONTH_S
        count = max(int(np.ceil(used / load)), int(month.gpus.max()))
        return cls(name, month, jobs.take(jobs.submit_s < from_s), ClusterSpec.of(count, 1), gpus)


def logs() -> list[Log]:
    """The semi-synthetic trace from October on, and the NASA log with its pauses cut short to load the machine."""
    october = read(DATA / "philly_semisynthetic.csv.gz").workload
    nasa = read(DATA / "nasa_ipsc_1993.swf.gz").workload
    since_s = float(nasa.submit_s.min())
    nasa = replace(nasa, submit_s=since_s + (nasa.submit_s - since_s) / 1.75)
    return [Log.of("philly", october, 2294959.0, 4), Log.of("nasa", nasa, since_s + 20 * DAY_S, 32)]


def told(of: Gamed, log: Log, model: str) -> tuple[Forecast, Forecast]:
    """What was forecast without floors by records of overruns, and with them."""
    baseline = model == "baseline"
    ranked = learnt(of.jobs, log.history) if baseline else trained(of.jobs, log.history, 15 * DAY_S)
    return replace(ranked, floor_s=np.zeros(len(ranked))), ranked


def bench(log: Log, model: str) -> None:
    """One line per strategy: the cheater's mean wait and what it gains against honesty, before and after."""
    jct_h = float(log.jobs.runtime_s.mean()) / HOUR_S
    print(f"{log.name}, {model}: {len(log.jobs):,} jobs, {log.fleet.total} GPUs; hours (gain), others' mean JCT")
    fair: dict[tuple[str, int], Waits] = {}
    for name, strategy in {"honest": honest, **STRATEGIES}.items():
        of = gamed(log.jobs, strategy, log.gpus)
        cells = []
        both = told(of, log, model)
        for ordering in ORDERINGS:
            for place, forecast in enumerate(both):
                found = waits(of, forecast, log.fleet, ordering)
                gain = fair.setdefault((ordering, place), found).cheater_h / max(found.cheater_h, 1e-9)
                cells.append(f"{found.cheater_h:6.2f} ({gain:5.2f}) {found.others_h + jct_h:.2f}")
        print(f"  {name:24}" + " | ".join(cells), flush=True)


def bench_money(asked: set[str]) -> None:
    """One line per way and strategy: its gain against honesty over all sites, and the mean waits in hours."""
    sys.path.append(str(Path(__file__).parents[1] / "simulator"))  # as pytest has it, for modules that tests share
    import money
    from paired import Gain

    ways, strategies = money.ways(), {**money.BAITING, **money.LYING}
    seeds = sorted(map(int, filter(str.isdecimal, asked))) or MONEY_SEEDS
    chosen = [name for name in ways if name in asked or not asked & set(ways)]
    names = [name for name in strategies if name in asked or not asked & set(strategies)]
    print(f"{len(seeds)} sites; median gain [its interval] largest; mean wait in hours of the cheater, of others")
    for way in chosen:
        sites = {seed: ways[way].site(seed) for seed in seeds}
        fair = [money.waits(sites[seed], ways[way], money.honest, seed) for seed in seeds]
        for name in names:
            found = [money.waits(sites[seed], ways[way], strategies[name], seed) for seed in seeds]
            gain = Gain.of([one.cheater_h for one in fair], [one.cheater_h for one in found])
            mine_h, others_h = (sum(column) / len(found) for column in zip(*map(astuple, found), strict=True))
            print(f"  {way:12} {name:26} {gain} {mine_h:6.2f} {others_h:6.2f}", flush=True)


def main() -> None:
    """The models and logs that were named, or all."""
    asked = set(sys.argv[1:])
    print(machine())
    if "money" in asked:
        bench_money(asked - {"money"})
        return
    for log in logs():
        for model in MODELS:
            if (log.name in asked or not asked & {"philly", "nasa"}) and (model in asked or not asked & set(MODELS)):
                bench(log, model)


if __name__ == "__main__":
    main()
