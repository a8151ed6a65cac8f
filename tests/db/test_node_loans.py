"""Which nodes are lent, in the database."""

from __future__ import annotations

from slurmsched.cluster.records.node_loans import LentNodes

PROFILE = LentNodes("profile", ("n4",), ("n3", "n4"))
GPU = LentNodes("gpu", ("n1", "n2", "n3"), ("n1", "n2"))


def test_what_is_lent_comes_back_as_it_was_and_only_to_its_cluster(store):
    assert store.loans("c") == ()
    store.save_loans("c", [PROFILE, GPU])
    assert store.loans("c") == (GPU, PROFILE)
    assert store.loans("another") == ()


def test_what_was_lent_before_is_forgotten(store):
    store.save_loans("another", [GPU])
    store.save_loans("c", [PROFILE, GPU])
    store.save_loans("c", [PROFILE])
    assert store.loans("c") == (PROFILE,)
    store.save_loans("c", [])
    assert store.loans("c") == ()
    assert store.loans("another") == (GPU,)
