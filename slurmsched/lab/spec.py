"""The requested shape of a lab."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from slurmsched.errors import LabError

DEFAULT_USERS = {"alice": "astro", "bob": "astro", "carol": "bio", "dave": "bio"}
DEFAULT_QOS = {"low": 10, "normal": 50, "high": 100}


@dataclass(frozen=True)
class LabSpec:
    """The shape of a lab. Users and QOS need root, QOS and operator rights need accounting too."""

    nodes: int = 4
    gpus: int = 4  #: fake GPUs per node
    shared_nodes: int = 0  #: this many at the end have two slots per GPU too, only in the partition ``shared``
    gpu_types: tuple[str, ...] = ()  #: types of GPUs, each on an equal part of the nodes; none for GPUs without type
    cpus: int = 8  #: per node, whatever the machine has
    type_cpus: tuple[int, ...] = ()  #: the same on the nodes of each type of GPU, where they differ
    shapes: tuple[str, ...] = ()  #: what each node has in words of slurm.conf, as CPUs=8 Gres=gpu:a100:2,gpu:v100:2
    memory_mib: int = 16_000  #: per node, never enforced
    accounting: bool = True  #: slurmdbd over a MariaDB of the lab's own
    slurm_root: str | None = None  #: a root tree whose Slurm is run instead of the host's
    users: Mapping[str, str] = field(default_factory=lambda: dict(DEFAULT_USERS))  #: name -> account
    operators: tuple[str, ...] = ("operator",)  #: more users, with AdminLevel=Operator
    qos: Mapping[str, int] = field(default_factory=lambda: dict(DEFAULT_QOS))  #: name -> Priority
    job_submit_lua: str | None = None  #: a script to install and switch on
    files: Mapping[str, str] = field(default_factory=dict)  #: more files beside slurm.conf, as topology.conf
    extra_conf: tuple[str, ...] = ()  #: slurm.conf lines; one that sets the same thing as ours replaces it

    def __post_init__(self) -> None:
        if self.nodes < 1 or self.cpus < 1 or self.memory_mib < 1 or self.gpus < 0:
            raise LabError(
                f"a lab needs at least one node, one CPU and 1 MiB, and no negative GPUs; got nodes={self.nodes}"
                f" cpus={self.cpus} memory_mib={self.memory_mib} gpus={self.gpus}"
            )
        if not 0 <= self.shared_nodes < max(self.nodes, 1) or (self.shared_nodes and not self.gpus):
            raise LabError(
                f"nodes that share GPUs are some of the nodes, never all, and have GPUs; got nodes={self.nodes}"
                f" gpus={self.gpus} shared_nodes={self.shared_nodes}"
            )
        if self.gpu_types and (self.shared_nodes or not self.gpus or self.nodes % len(self.gpu_types)):
            raise LabError(
                f"types of GPUs are on equal parts of the nodes, all with GPUs of their own; got nodes={self.nodes}"
                f" gpus={self.gpus} shared_nodes={self.shared_nodes} gpu_types={','.join(self.gpu_types)}"
            )
        if self.type_cpus and (len(self.type_cpus) != len(self.gpu_types) or min(self.type_cpus) < 1):
            raise LabError(
                f"each type of GPU has its number of CPUs, or none has; got gpu_types={','.join(self.gpu_types)}"
                f" type_cpus={self.type_cpus}"
            )
        if self.shapes and (len(self.shapes) != self.nodes or self.gpu_types or self.shared_nodes):
            raise LabError(
                f"each node has its shape, or none has, and shapes have the types of GPUs; got nodes={self.nodes}"
                f" shapes={len(self.shapes)} gpu_types={','.join(self.gpu_types)} shared_nodes={self.shared_nodes}"
            )
        if both := sorted(set(self.users) & set(self.operators)):
            raise LabError(f"a lab user is either ordinary or an operator, not both: {', '.join(both)}")

    @property
    def accounts(self) -> tuple[str, ...]:
        """The Slurm accounts the users belong to, in first-seen order."""
        return tuple(dict.fromkeys(self.users.values())) or ("astro",)

    @property
    def parts(self) -> list[tuple[str, int, int]]:
        """The nodes with whole GPUs by their type: type, first number, number of nodes; one part without types."""
        whole, types = self.nodes - self.shared_nodes, self.gpu_types or ("",)
        each = whole // len(types)
        return [(name, 1 + each * number, each) for number, name in enumerate(types)]

    @property
    def node_names(self) -> tuple[str, ...]:
        """``n1`` to ``nN``."""
        return tuple(f"n{number}" for number in range(1, self.nodes + 1))

    def to_json(self) -> dict[str, Any]:
        """The spec as JSON types."""
        return asdict(self)

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> LabSpec:
        """Parse the result of ``to_json``."""
        fields: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in record.items()
        }
        return cls(**fields)
