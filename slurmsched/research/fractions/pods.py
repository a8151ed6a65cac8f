"""Nodes and pods with fractions of GPUs, as the artifact of FGD (Weng et al., ATC'23) has them in csv files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...cluster.columns import IntArray, Labels
from ...policies.selection.fragmentation import GPU
from ...simulator.traces import cells
from ...simulator.traces.delimited_text import DelimitedRecords
from ...simulator.traces.file import TraceFile
from ...simulator.traces.trace import TraceError

_UNKNOWN = ("", "nan")
MOST_GPUS = 64  #: of a node; more are a mistake


@dataclass(frozen=True, eq=False)
class GpuNodes:
    """The nodes of a cluster, a row each."""

    cpu_milli: IntArray
    memory_mib: IntArray
    gpus: IntArray
    model: Labels  #: of its GPUs

    def __len__(self) -> int:
        return len(self.gpus)

    @property
    def capacity(self) -> int:
        """The thousandths of all GPUs."""
        return int(self.gpus.sum()) * GPU


@dataclass(frozen=True, eq=False)
class Pods:
    """Pods in the order of their file, a row each: a share of one GPU, whole GPUs of one node, or none."""

    cpu_milli: IntArray
    memory_mib: IntArray
    gpus: IntArray
    share: IntArray  #: thousandths of each of its GPUs; 0 without GPUs
    models: Labels  #: models of GPUs that it accepts, with bars between them; empty for any

    def __len__(self) -> int:
        return len(self.gpus)

    @property
    def demand(self) -> IntArray:
        """The thousandths of GPUs that each asks for."""
        return self.gpus * self.share


def read_nodes(path: str | Path) -> GpuNodes:
    """Read nodes from a csv file, plain or packed by gzip, with the columns cpu_milli, memory_mib, gpu and model.

    TraceError names file, line and column, and what is accepted.
    """
    records = DelimitedRecords(TraceFile(path))
    read = records.read(
        {"cpu_milli": cells.whole, "memory_mib": cells.whole, "gpu": cells.whole}, {"model": cells.text}
    )
    gpus = read["gpu"]
    _refuse(records, gpus > MOST_GPUS, "gpu", f"accepted are up to {MOST_GPUS} GPUs")
    if not gpus.any():
        raise TraceError(f"reading the nodes {path}: none has GPUs")
    model = read.get("model", Labels.of([""] * len(gpus)))
    return GpuNodes(read["cpu_milli"], read["memory_mib"], gpus, _known(model))


def read_pods(path: str | Path) -> Pods:
    """Read pods from a csv file, plain or packed by gzip, with cpu_milli, memory_mib, num_gpu, gpu_milli, gpu_spec.

    The last one may be missing. TraceError names file, line and column, and what is accepted.
    """
    records = DelimitedRecords(TraceFile(path))
    needed = ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
    read = records.read(dict.fromkeys(needed, cells.whole), {"gpu_spec": cells.text})
    gpus, share = read["num_gpu"], read["gpu_milli"]
    wrong = "a pod with GPUs needs gpu_milli from 1 on, and 1000 with more than one GPU"
    _refuse(records, (gpus > 0) & (share == 0), "gpu_milli", wrong)
    _refuse(records, (gpus > 1) & (share < GPU), "gpu_milli", wrong)
    if not gpus.any():
        raise TraceError(f"reading the pods {path}: none asks for GPUs")
    share = np.where(gpus > 0, np.minimum(share, GPU), 0)
    models = _known(read["gpu_spec"]) if "gpu_spec" in read else Labels.of([""] * len(gpus))
    models = Labels.of([name if many else "" for name, many in zip(models, gpus.tolist(), strict=True)])
    return Pods(read["cpu_milli"], read["memory_mib"], gpus, share, models)


def _refuse(records: DelimitedRecords, wrong: np.ndarray[tuple[int], np.dtype[np.bool_]], name: str, why: str) -> None:
    """Raise the error for the first record that is *wrong*."""
    if wrong.any():
        raise records.fail(int(np.argmax(wrong)), name, why)


def _known(texts: Labels) -> Labels:
    return texts.renamed("" if name.strip().lower() in _UNKNOWN else name.strip() for name in texts.names)
