"""FGD's figures: ``python -m tests.bench.fgd``, allocation and fragments of seven placements beside the published ones.

Workloads are csv files of pods: PATHS, by default all ``pods_*`` in the folder of ``--data``, which also has
``nodes.csv`` and the published means, ``allocated.csv``. A row is the mean over ten seeds, each with several orders of
the nodes among which equal scores choose (ours, whose scores are hardly ever equal, has one), and its standard error.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Iterator, Mapping
from pathlib import Path

from slurmsched.research.fractions.figures import FillFigures, figures
from slurmsched.research.fractions.fill import PLACEMENTS
from slurmsched.research.fractions.pods import read_nodes, read_pods

DATA = Path(__file__).parents[3] / "shared" / "data" / "fgd"
ARRIVED = 130  #: per cent of all GPUs
WITHIN = 0.5  #: points of the published mean
SEEDS, ORDERS = 10, 4
THEIRS = {
    "random": "01-Random",
    "dot-product": "02-DotProd",
    "clustering": "03-GpuClustering",
    "packing": "04-GpuPacking",
    "best-fit": "05-BestFit",
    "fgd": "06-FGD",
}


def published(path: Path) -> Mapping[tuple[str, str], tuple[float, float]]:
    """Return mean and standard error of the published allocation at ARRIVED, by workload and placement."""
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["arrived_percent"] == str(ARRIVED)]
    return {
        (row["workload"], row["placement"]): (
            float(row["mean_allocated_percent"]),
            float(row["sd"]) / math.sqrt(int(row["seeds"])),
        )
        for row in rows
    }


def lines(
    name: str, rows: Mapping[str, FillFigures], theirs: Mapping[tuple[str, str], tuple[float, float]]
) -> Iterator[str]:
    """Yield a workload's rows of the page's table."""
    for placement, row in rows.items():
        mean, error = theirs.get((name, THEIRS.get(placement, "")), (math.nan, math.nan))
        off = row.allocated - mean
        said = f"{mean:.2f} ± {error:.2f} | {off:+.2f}" if mean > 0 else "– | –"
        if placement not in THEIRS:
            said = f"fgd {rows['fgd'].allocated:.2f} | {row.allocated - rows['fgd'].allocated:+.2f}"
        yield f"| {name} | `{placement}` | {row.allocated:.2f} ± {row.error:.2f} | {said} | {row.fragments:.2f} |"


def main() -> None:
    """Print a table with a row for each workload and placement, and how many are near the published means."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pods", nargs="*", type=Path, metavar="PATH", help="workloads; all of --data by default")
    parser.add_argument("--data", type=Path, default=DATA, help="the folder of nodes.csv and allocated.csv")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--orders", type=int, default=ORDERS, help="of nodes with one score, for each seed")
    said = parser.parse_args()
    nodes, theirs = read_nodes(said.data / "nodes.csv"), published(said.data / "allocated.csv")
    near, compared = 0, 0
    print("| workload | placement | allocated, % | published | difference | fragments, % |\n|---|---|---|---|---|---|")
    for path in said.pods or sorted(said.data.glob("pods_*")):
        name, pods = path.name.removeprefix("pods_").partition(".")[0], read_pods(path)
        orders = {one: said.orders if one in THEIRS else 1 for one in PLACEMENTS}
        rows = {
            one: figures(nodes, pods, one, arrived=ARRIVED, seeds=range(said.seeds), orders=many)
            for one, many in orders.items()
        }
        for line in lines(name, rows, theirs):
            print(line, flush=True)
        off = [abs(rows[one].allocated - theirs[name, key][0]) for one, key in THEIRS.items() if (name, key) in theirs]
        near, compared = near + sum(one <= WITHIN for one in off), compared + len(off)
    print(f"\n{near} of {compared} within {WITHIN} points of the published means at {ARRIVED} % arrived")


if __name__ == "__main__":
    main()
