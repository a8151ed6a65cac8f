"""Links between GPUs: a job gets the free GPUs with most bandwidth, and leaves the others as much as it can."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmsched.cluster.text.links import link_counts, links_line
from slurmsched.policies.links import GpuLinks, lowest

P3 = ("-1,1,1,2", "1,-1,2,1", "1,2,-1,2", "2,1,2,-1")
FOUR = GpuLinks.of_counts(link_counts(P3), 25.0, 12.0)


@st.composite
def nodes(draw: st.DrawFn) -> tuple[GpuLinks, list[int], int]:
    """Links of a node, its free GPUs, and a number of them."""
    size = draw(st.integers(1, 6))
    links = {pair: draw(st.integers(0, 2)) for pair in combinations(range(size), 2)}
    counts = [
        [-1 if one == other else links[min(one, other), max(one, other)] for other in range(size)]
        for one in range(size)
    ]
    free = draw(st.lists(st.integers(0, size - 1), min_size=1, unique=True))
    return GpuLinks.of_counts(counts, 25.0, 12.0), free, draw(st.integers(1, len(free)))


def test_a_pair_gets_two_links_on_an_empty_node_and_where_the_lowest_gpus_are_not_the_best():
    assert FOUR.best(range(4), 2) == (0, 3)
    assert FOUR.best([0, 1, 2], 2) == (1, 2)
    assert lowest([2, 1, 0], 2) == (0, 1)
    assert FOUR.mean_gbps((0, 3)) == 50
    assert FOUR.mean_gbps((0, 1, 2, 3)) == 37.5


def test_a_job_of_one_gpu_leaves_the_best_rest():
    assert FOUR.best(range(4), 1) == (0,), "the links among 1, 2 and 3 are five, and four with GPU 2 or 3 gone"
    assert FOUR.best([1, 2, 3], 1) == (1,), "2 and 3 have two links"
    assert FOUR.best([0, 2, 3], 1) == (0,)


@given(nodes())
def test_no_other_free_gpus_have_more_bandwidth_and_none_with_as_much_leave_more(node):
    links, free, count = node
    chosen = links.best(free, count)
    assert len(chosen) == count
    assert set(chosen) <= set(free)

    def worth(gpus):
        return links.total_gbps(gpus), links.total_gbps(sorted(set(free) - set(gpus)))

    best = max(worth(other) for other in combinations(sorted(free), count))
    assert worth(chosen) == best
    assert chosen == min(other for other in combinations(sorted(free), count) if worth(other) == best)


def test_on_a_node_with_very_many_sets_a_job_still_gets_gpus_with_links_between_them():
    blocks = [[-1 if a == b else 2 * (a // 8 == b // 8) for b in range(32)] for a in range(32)]
    links = GpuLinks.of_counts(blocks, 25.0, 12.0)
    assert links.best([1, 4, 6, 7, *range(16, 24), 30, 31], 8) == tuple(range(16, 24))
    assert links.best(range(32), 5) == (0, 1, 2, 3, 4)


def test_the_numbers_of_links_are_read_and_written_as_in_gres_conf():
    counts = link_counts(P3)
    assert tuple(map(links_line, counts)) == P3


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        (("-1,1", "2,-1"), "GPU 0 has 1 links to 1, and 1 has 2 to it"),
        (("-1,1", "1"), "accepted are 2 numbers of links, -1 for itself"),
        (("0,1", "1,0"), "'0,1' for GPU 0"),
        (("-1,x", "1,-1"), "'-1,x' for GPU 0"),
        (("-1,-2", "-2,-1"), "'-1,-2' for GPU 0"),
    ],
)
def test_other_numbers_of_links_are_refused_by_line(lines, error):
    with pytest.raises(ValueError, match=error):
        link_counts(lines)
