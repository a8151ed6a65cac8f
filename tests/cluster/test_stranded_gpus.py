"""GPUs without CPUs or memory left on their node: how many, for how long, and whose jobs took these."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from decide.views import jobs, nodes, running_jobs

from slurmsched.cluster.columns import Labels
from slurmsched.cluster.jobs import JobTable
from slurmsched.cluster.state import ClusterState
from slurmsched.cluster.stranded_gpus import LONGEST_S, StrandedBy, StrandedGpus, stranded

NOW_S = 1_000_000.0


def state(running: JobTable, pending: JobTable, **columns) -> ClusterState:
    """n1 and n2 with four GPUs, 8 CPUs and 16,000 MiB each."""
    return ClusterState(pending, running, jobs(0), replace(nodes((4, 4)), **columns), None, None)  # type: ignore[arg-type]


def taken(cpus=(8, 0), memory=(0.0, 0.0), gpus=(1, 0)):
    """What is in use on both nodes."""
    return {"cpus_used": np.array(cpus), "memory_used_mib": np.array(memory), "gpus_used": np.array(gpus)}


WAITING = jobs(1, gpus=[1], cpus=[2], memory_mib=[1000.0])
GREEDY = running_jobs(1, gpus=[1], cpus=[8], user=["bob"], account=["bio"])


def test_gpus_of_a_node_whose_cpus_are_taken_are_stranded_by_the_job_that_has_more_than_its_part():
    seen = state(GREEDY, WAITING, **taken())
    rows, cpu, memory = stranded(seen)
    assert (rows.tolist(), cpu.tolist(), memory.tolist()) == ([0], [3.0], [0.0])


def test_so_are_those_whose_memory_is_taken():
    hungry = running_jobs(1, gpus=[1], cpus=[1], memory_mib=[15_500.0])
    _, cpu, memory = stranded(state(hungry, WAITING, **taken(cpus=(1, 0), memory=(15_500.0, 0.0))))
    assert (cpu.tolist(), memory.tolist()) == ([0.0], [3.0])


def test_several_jobs_answer_by_what_they_have_beyond_the_part_of_their_gpus():
    three = running_jobs(3, gpus=[1, 0, 1], cpus=[4, 2, 2], node_list=["n1"] * 3)
    _, cpu, _ = stranded(state(three, WAITING, **taken(gpus=(2, 0))))
    assert cpu.tolist() == pytest.approx([1.0, 1.0, 0.0]), "two CPUs belong to each GPU"


@pytest.mark.parametrize(
    ("pending", "used"),
    [
        (jobs(0), taken()),
        (jobs(1, gpus=[0]), taken()),
        (WAITING, taken(gpus=(4, 0))),
        (WAITING, taken(cpus=(2, 0))),
        (WAITING, taken() | {"usable": np.array([False, True])}),
    ],
    ids=["nobody waits", "nobody waits for GPUs", "no GPU is free", "CPUs are left", "the node is down"],
)
def test_nothing_is_stranded_where_nobody_waits_or_a_job_could_start(pending, used):
    assert len(stranded(state(GREEDY, pending, **used))[0]) == 0


def test_jobs_on_several_nodes_answer_for_their_part_of_each():
    wide = running_jobs(1, gpus=[2], cpus=[16], node_list=["n[1-2]"], user=["bob"])
    rows, cpu, _ = stranded(state(wide, WAITING, **taken(cpus=(8, 8), gpus=(1, 1))))
    assert (rows.tolist(), cpu.tolist()) == ([0, 0], [3.0, 3.0])


def test_hours_are_added_up_by_owner_and_a_gap_counts_in_part():
    book = StrandedGpus()
    seen = state(GREEDY, WAITING, **taken())
    book.observe(seen, NOW_S)
    assert book.table() == ()
    book.observe(seen, NOW_S + 60.0)
    book.observe(seen, NOW_S + 60.0 + 10 * LONGEST_S)
    (row,) = book.table()
    assert row == StrandedBy("bio", "bob", pytest.approx(3 * (60.0 + LONGEST_S) / 3600), 0.0)
    book.observe(seen, NOW_S)
    assert book.table() == (row,), "a clock that was set back adds nothing"


def test_who_stranded_most_comes_first():
    both = running_jobs(
        2, gpus=[1, 1], cpus=[5, 3], user=["bob", "eve"], account=["bio", "astro"], node_list=["n1", "n1"]
    )
    book, seen = StrandedGpus(), state(both, WAITING, **taken(gpus=(2, 0)))
    book.observe(seen, NOW_S)
    book.observe(seen, NOW_S + 100.0)
    assert [row.user for row in book.table()] == ["bob", "eve"]
    assert isinstance(seen.running.user, Labels)
