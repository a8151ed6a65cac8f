"""A node is overloaded where it was so all the time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from slurmsched.cluster.node_loads import NodeLoads
from slurmsched.slurm.adapters.fake import FakeSlurm


class Loads:
    """Nodes n1 and n2 as a daemon sees them at given moments, where a load counts after 60 s."""

    def __init__(self) -> None:
        self.now_s, self.for_s = 0.0, 60.0
        self._loads, self._state = NodeLoads(lambda: self.now_s, lambda: self.for_s), FakeSlurm(nodes=2).observe()

    def at(self, now_s, load, free_mib=(9.0, 9.0)):
        self.now_s = now_s
        nodes = replace(self._state.nodes, cpu_load=np.array(load), free_memory_mib=np.array(free_mib))
        nodes = self._loads.filled(replace(self._state, nodes=nodes)).nodes
        return nodes.cpu_load.tolist(), nodes.free_memory_mib.tolist()


def unknown(found):
    return all(np.isnan(each).all() for each in found)


def test_the_lowest_load_and_the_most_free_memory_of_the_time_count():
    loads = Loads()
    assert unknown(loads.at(0.0, [9.0, 1.0]))
    assert unknown(loads.at(30.0, [5.0, 7.0]))
    assert loads.at(60.0, [8.0, 8.0], [3.0, 11.0]) == ([5.0, 1.0], [9.0, 11.0])
    assert loads.at(95.0, [9.0, 9.0]) == ([5.0, 7.0], [9.0, 11.0]), "the moment before the time began counts"
    assert loads.at(130.0, [9.0, 9.0])[0] == [8.0, 8.0]


def test_a_node_that_says_nothing_once_is_not_known():
    loads = Loads()
    loads.at(0.0, [9.0, np.nan])
    assert np.array_equal(loads.at(60.0, [9.0, 9.0])[0], [9.0, np.nan], equal_nan=True)


def test_where_nobody_needs_loads_nothing_is_kept():
    loads = Loads()
    loads.at(0.0, [9.0, 9.0])
    loads.for_s = None
    loads.at(60.0, [9.0, 9.0])
    loads.for_s = 60.0
    assert unknown(loads.at(61.0, [9.0, 9.0]))
    loads.for_s = 0.0
    assert loads.at(62.0, [4.0, 3.0])[0] == [4.0, 3.0]
