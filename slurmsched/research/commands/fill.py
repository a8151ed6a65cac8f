"""``slurmsched fill``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from ...cli.output import Cell, TextTable, emit, table_options
from ...cli.progress import bar
from ...cluster.text.plural import count

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.argument("nodes_path", metavar="NODES", type=FILE)
@click.argument("pods_path", metavar="PODS", type=FILE)
@click.option("--placement", "placements", multiple=True, help="Compare these.  [default: all]")
@click.option("--arrived", type=click.IntRange(1, 1000), default=130, help="Per cent of all GPUs.  [default: 130]")
@click.option("--seeds", type=click.IntRange(1, 1000), default=10, help="Orders of arrival, a run each.  [default: 10]")
@table_options
def fill(
    nodes_path: Path, pods_path: Path, placements: tuple[str, ...], arrived: int, seeds: int, as_json: bool
) -> None:
    """Fill the nodes of NODES with the pods of PODS, and say what share of the GPUs each placement allocates.

    Pods arrive in random order and stay; one without room is dropped. NODES is csv, plain or gzip, with the columns
    cpu_milli, memory_mib, gpu and model; PODS with cpu_milli, memory_mib, num_gpu, gpu_milli (thousandths of each GPU)
    and perhaps gpu_spec, the models that a pod accepts, as in V100M16|V100M32.
    """
    from ...policies.selection.fragmentation import GPU
    from ..fractions.figures import figures
    from ..fractions.fill import PLACEMENTS
    from ..fractions.pods import read_nodes, read_pods

    nodes, pods = read_nodes(nodes_path), read_pods(pods_path)
    names, rows = placements or tuple(PLACEMENTS), []
    with bar("placements") as advance:
        for name in names:
            rows.append(figures(nodes, pods, name, arrived=arrived, seeds=range(seeds)))
            advance(len(rows), len(names))
    cells: list[list[Cell]] = [
        [one.placement, f"{one.allocated:.2f} %", f"{one.error:.2f}", f"{one.fragments:.2f} %", f"{one.dropped:.1f} %"]
        for one in rows
    ]
    facts = {"nodes": len(nodes), "pods": len(pods), "arrived": arrived, "seeds": seeds}
    gpus, kinds = count(nodes.capacity // GPU, "GPU"), count(len(pods), "pod")
    emit(
        facts | {"placements": [asdict(one) for one in rows]},
        f"{count(len(nodes), 'node')} with {gpus}; {kinds} of {pods_path.name} until they ask for {arrived} %",
        TextTable(("PLACEMENT", "ALLOCATED", "STANDARD ERROR", "FRAGMENTS", "PODS DROPPED"), cells),
        as_json=as_json,
    )
