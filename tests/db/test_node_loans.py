"""Which nodes are lent, in the database."""

from __future__ import annotations

from slurmsched.cluster.records.node_loans import Lent

PROFILE = Lent("profile", ("n4",), ("n3", "n4"))
GPU = Lent("gpu", ("n1", "n2", "n3"), ("n1", "n2"))


def test_what_is_lent_comes_back_as_it_was_and_only_to_its_cluster(store):
    assert store.lent("c") == ()
    store.save_lent("c", [PROFILE, GPU])
    assert store.lent("c") == (GPU, PROFILE)
    assert store.lent("another") == ()


def test_what_was_lent_before_is_forgotten(store):
    store.save_lent("another", [GPU])
    store.save_lent("c", [PROFILE, GPU])
    store.save_lent("c", [PROFILE])
    assert store.lent("c") == (PROFILE,)
    store.save_lent("c", [])
    assert store.lent("c") == ()
    assert store.lent("another") == (GPU,)
