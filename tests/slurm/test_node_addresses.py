"""The addresses of a node."""

from __future__ import annotations

import pytest

from slurmsched.clock import ManualClock
from slurmsched.errors import SlurmRefused, SlurmUnavailable
from slurmsched.slurm.read.node_addresses import KEEP_S, NodeAddresses


class Sinfo:
    """Answers as sinfo does, and counts."""

    def __init__(self, **nodes):
        self.nodes, self.asked, self.trouble = nodes, 0, None

    def __call__(self, argv):
        self.asked += 1
        if self.trouble:
            raise self.trouble
        return f"{'NODE_ADDR':256}\n{self.nodes.get(argv[argv.index('-n') + 1], ''):256}\n"


def test_a_node_has_the_addresses_of_its_nodeaddr():
    addresses = NodeAddresses(Sinfo(n1="192.0.2.7", n2="localhost"), ManualClock().monotonic)
    assert addresses("n1") >= {"192.0.2.7"}
    assert "127.0.0.1" in addresses("n2")


def test_a_node_that_slurm_does_not_know_has_none():
    sinfo = Sinfo()
    addresses = NodeAddresses(sinfo, ManualClock().monotonic)
    assert addresses("localhost") == frozenset()
    sinfo.trouble = SlurmRefused("sinfo: Invalid node name")
    assert addresses("127.0.0.1") == frozenset()


def test_a_name_that_cannot_be_resolved_has_none():
    assert NodeAddresses(Sinfo(n1="x" * 300), ManualClock().monotonic)("n1") == frozenset()


def test_slurm_is_asked_once_in_ten_minutes():
    clock, sinfo = ManualClock(), Sinfo(n1="192.0.2.7")
    addresses = NodeAddresses(sinfo, clock.monotonic)
    for _ in range(5):
        addresses("n1")
    assert sinfo.asked == 1
    clock.now_s += KEEP_S
    addresses("n1")
    assert sinfo.asked == 2


def test_a_silent_slurmctld_is_not_remembered_as_an_answer():
    sinfo = Sinfo(n1="192.0.2.7")
    sinfo.trouble = SlurmUnavailable("no answer")
    addresses = NodeAddresses(sinfo, ManualClock().monotonic)
    with pytest.raises(SlurmUnavailable):
        addresses("n1")
    sinfo.trouble = None
    assert "192.0.2.7" in addresses("n1")
