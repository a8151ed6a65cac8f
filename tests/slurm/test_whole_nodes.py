"""Jobs with whole nodes have their GPUs, also where Slurm does not count GPUs for the job."""

from __future__ import annotations

from test_sinfo import read_nodes, seen

from slurmsched.cluster.jobs import job_table
from slurmsched.cluster.text.hostlist import fold
from slurmsched.slurm.read.whole_nodes import with_gpus_of_nodes

NODES = read_nodes(
    seen(
        *({"NodeList": name, "Gres": "gpu:a100:4", "GresUsed": "gpu:a100:4(IDX:0-3)"} for name in ("n1", "n2")),
        {"NodeList": "n3", "Gres": "gpu:a100:4", "GresUsed": "gpu:a100:1(IDX:0)"},
        {"NodeList": "c1", "Gres": "(null)", "GresUsed": "gpu:0"},
    )
)


def gpus(*node_lists: str, exclusive: bool = True, asked: int = 0) -> list[tuple[int, str]]:
    many = len(node_lists)
    jobs = job_table(many, gpus=[asked] * many, node_list=list(node_lists), exclusive=[exclusive] * many)
    found = with_gpus_of_nodes(jobs, NODES)
    return list(zip(found.gpus.tolist(), found.gpu_type, strict=True))


def test_a_job_with_whole_nodes_has_all_gpus_that_are_in_use_there():
    assert gpus("n1", fold(["n1", "n2"]), "c1") == [(4, "a100"), (8, "a100"), (0, "")]
    assert gpus("n1", asked=1) == [(4, "a100")]


def test_a_job_that_shares_its_nodes_has_what_it_asked_for():
    assert gpus("n3", exclusive=False, asked=1) == [(1, "")]


def test_a_job_without_nodes_yet_and_one_on_a_node_that_is_gone_keep_what_they_asked_for():
    assert gpus("", "n9", asked=2) == [(2, ""), (2, "")]
