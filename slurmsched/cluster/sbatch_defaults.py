"""The CPUs and memory that Slurm gives jobs that name none: DefMemPerCPU, DefMemPerNode, DefMemPerGPU, DefCpuPerGPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from .nodes import PartitionTable
from .sbatch_request import SbatchRequest
from .text.sbatch_options import OF_MEMORY


@dataclass(frozen=True)
class JobDefaults:
    """The defaults of a partition; 0 for none."""

    cpu_memory_mib: float = 0.0
    node_memory_mib: float = 0.0  #: counts only where there is none per CPU
    gpu_memory_mib: float = 0.0  #: of a job with GPUs in place of the other two, once it starts
    gpu_cpus: int = 0  #: CPUs that come with each GPU, once the job starts


def defaults_of(partitions: PartitionTable, row: int) -> JobDefaults:
    """Return the defaults of the partition in *row*."""
    return JobDefaults(
        float(partitions.default_cpu_memory_mib[row]),
        float(partitions.default_node_memory_mib[row]),
        float(partitions.default_gpu_memory_mib[row]),
        int(partitions.default_gpu_cpus[row]),
    )


def with_defaults(request: SbatchRequest, options: Mapping[str, str], defaults: JobDefaults) -> SbatchRequest:
    """Return *request* with the *defaults* for what the *options* do not say."""
    if request.gpus and defaults.gpu_cpus and not {"cpus-per-task", "cpus-per-gpu"} & options.keys():
        request = replace(request, cpus_per_gpu=defaults.gpu_cpus)
    if options.keys() & set(OF_MEMORY):
        return request
    if request.gpus:
        request = replace(request, gpu_memory_mib=defaults.gpu_memory_mib)
    if each := defaults.cpu_memory_mib:
        return replace(request, memory_per_cpu=True, node_memory_mib=each, memory_mib=each * request.cpus)
    if each := defaults.node_memory_mib:
        return replace(request, node_memory_mib=each, memory_mib=each * request.nodes)
    return request
