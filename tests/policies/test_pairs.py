"""Indolent packing: an un-packable pair is never packed, and a pair that harms is not made."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmsched.cluster.columns import Labels
from slurmsched.policies.sharing import allowed, capacity, gains_s, pairs, why_not
from slurmsched.policies.sharing_candidates import APATHETIC, EAGER, INDOLENT, OFF, PackingLimits, Sharers

HOUR_S = 3600.0
#: A light job that may share with its like.
LIGHT = {
    "user": "alice",
    "kind": "train",
    "gpus": 1,
    "nodes": 1,
    "score": 0,
    "memory_mib": 5_000.0,
    "gpu_util": 0.1,
    "kept": 1.0,
    "speed": 1.0,
    "left_s": HOUR_S,
    "measured": True,
    "unstable": False,
    "barred": False,
}
#: Two light jobs keep 0.98 of their speed, two heavy ones half.
ROOMY = PackingLimits(memory_mib=20_000.0, curve=((0.0, 1.0), (1.0, 0.9), (2.0, 0.5)))


def sharers(*jobs: dict[str, object], first: int = 1) -> Sharers:
    rows = [LIGHT | {"job_id": first + at} | job for at, job in enumerate(jobs)]
    rows = [{"open_gpus": row["gpus"]} | row for row in rows]
    columns = {name: [row[name] for row in rows] for name in ("job_id", "open_gpus", *LIGHT)}
    return Sharers(
        **{
            name: Labels.of(values) if name in ("user", "kind") else np.array(values, dtype=kind_of(name))
            for name, values in columns.items()
        }
    )


def kind_of(name: str) -> type:
    if name in ("memory_mib", "gpu_util", "kept", "speed", "left_s"):
        return np.float64
    return np.bool_ if name in ("measured", "unstable", "barred") else np.int64


def one_pair(
    guest: dict[str, object], host: dict[str, object], packing: PackingLimits = ROOMY, wait_s: float = 2 * HOUR_S
):
    waiting, running = sharers(guest), sharers(host, first=100)
    made = pairs(waiting, np.array([wait_s]), running, np.ones(1, dtype=np.bool_), packing)
    return made, why_not(waiting, 0, running, 0, packing)


def test_two_light_jobs_of_one_user_share():
    made, why = one_pair({}, {})
    assert [(pair.guest, pair.host) for pair in made] == [(1, 100)]
    assert why == ""


@pytest.mark.parametrize(
    ("guest", "host", "packing", "words"),
    [
        ({"gpus": 2}, {}, {}, "different numbers of GPUs"),
        ({"gpus": 0}, {"gpus": 0}, {}, "only jobs with GPUs of one node"),
        ({"nodes": 2, "gpus": 2}, {"gpus": 2}, {}, "of one node"),
        ({"score": 2}, {"score": 1}, {}, "add up to 3, more than 2"),
        ({"score": 1}, {"score": 1}, {"capacity": APATHETIC}, "more than 1"),
        ({}, {}, {"capacity": OFF}, "no jobs share"),
        ({"memory_mib": 16_000.0}, {}, {}, "21000 MiB of each GPU, more than 20000"),
        ({"memory_mib": np.nan}, {}, {}, "memory of one of the two was never measured"),
        ({"user": "bob"}, {}, {}, "different users"),
        ({}, {"measured": False}, {}, "never measured"),
        ({}, {"unstable": True}, {}, "unstable"),
        ({"barred": True}, {}, {}, "does not share"),
        ({"job_id": 7}, {"job_id": 7}, {}, "same job"),
        ({}, {"open_gpus": 0}, {}, "too few of its GPUs are without a second job"),
        ({"gpus": 2}, {"gpus": 4, "open_gpus": 1}, {"wide": True}, "too few of its GPUs are without a second job"),
        ({"gpu_util": 1.0}, {"gpu_util": 1.0}, {"least_speed": 0.6}, "keep 0.50 of their speed, less than 0.6"),
        ({"gpu_util": np.nan}, {"gpu_util": np.nan}, {"least_speed": 0.6}, "keep 0.50 of their speed, less than 0.6"),
        (
            {"gpu_util": 1.0},
            {"gpu_util": 1.0},
            {"least_speed_each": 0.6},
            "one of the two would keep 0.50 of its speed",
        ),
        ({}, {"kind": "eval"}, {"failed": frozenset({frozenset({"train", "eval"})})}, "failed together"),
        ({}, {"kind": "eval"}, {"failed": frozenset({frozenset({"eval"})})}, "failed together"),
    ],
)
def test_what_stands_against_a_pair_is_said_and_the_pair_not_made(guest, host, packing, words):
    made, why = one_pair(guest, host, replace(ROOMY, **packing))
    assert made == ()
    assert words in why


def test_what_kinds_of_jobs_were_measured_to_keep_of_the_curve_counts_for_the_mean_and_for_each():
    asked = replace(ROOMY, least_speed=0.8, least_speed_each=0.65)
    heavy = {"gpu_util": 0.5}  # each keeps 0.9 by the curve
    assert one_pair(heavy, heavy, asked)[1] == ""
    assert one_pair(heavy | {"kept": 0.8}, heavy, asked)[1] == ""
    assert "keep 0.79 of their speed, less than 0.8" in one_pair(heavy | {"kept": 0.75}, heavy, asked)[1]
    sure = replace(asked, least_speed=0.9, margin=0.02)
    assert "less than 0.9 and 0.02 for the error of that forecast" in one_pair(heavy, heavy, sure)[1]
    low = replace(asked, least_speed=0.7)
    assert (
        "one of the two would keep 0.63 of its speed, less than 0.65" in one_pair(heavy, heavy | {"kept": 0.7}, low)[1]
    )


def test_different_users_share_where_the_admin_allows_it():
    made, why = one_pair({"user": "bob"}, {}, replace(ROOMY, other_users=True))
    assert len(made) == 1
    assert why == ""


def test_nobody_shares_before_the_admin_says_how_much_memory_there_is():
    assert one_pair({}, {}, PackingLimits())[0] == ()


def test_nobody_waits_beside_another_for_gpus_that_are_about_to_be_free():
    assert one_pair({}, {"gpu_util": 0.9}, wait_s=60.0)[0] == ()


def test_a_short_job_joins_a_long_one_sooner_than_a_long_one_does():
    host = {"left_s": 100 * HOUR_S, "gpu_util": 0.9}
    short, _ = one_pair({"left_s": 0.1 * HOUR_S}, host, wait_s=HOUR_S)
    long, _ = one_pair({"left_s": 100 * HOUR_S}, host, wait_s=HOUR_S)
    assert len(short) == 1
    assert long == ()


def test_a_gain_is_what_both_jobs_end_sooner_than_one_after_the_other():
    waiting, running = sharers({"left_s": 100.0, "gpu_util": 1.0}), sharers({"left_s": 400.0, "gpu_util": 1.0})
    # Together for 200 s: the guest ends 100 s late, the host has done 100 s of its work and ends 100 s late.
    assert gains_s(waiting, np.array([500.0]), running, ROOMY)[0, 0] == pytest.approx(500.0 - 100.0 - 100.0)


def test_a_second_guest_of_a_wide_job_costs_it_only_what_the_first_did_not():
    waiting, packing = sharers({"left_s": 100.0, "gpu_util": 1.0}), replace(ROOMY, wide=True)
    alone, slowed = (
        sharers({"gpus": 8, "open_gpus": 7, "gpu_util": 1.0, "speed": speed, "left_s": 400.0}) for speed in (1.0, 0.6)
    )
    assert gains_s(waiting, np.array([500.0]), alone, packing)[0, 0] == pytest.approx(500.0 - 200.0 * (0.5 + 0.5))
    assert gains_s(waiting, np.array([500.0]), slowed, packing)[0, 0] == pytest.approx(500.0 - 200.0 * (0.5 + 0.1))


def test_jobs_that_wait_gain_the_gpus_that_a_pair_leaves_to_them_and_lose_those_that_the_host_keeps_longer():
    waiting, running = sharers({"left_s": 100.0, "gpu_util": 1.0}), sharers({"left_s": 400.0, "gpu_util": 1.0})
    wide = sharers({"gpus": 4, "left_s": 400.0, "gpu_util": 1.0})
    packing = replace(ROOMY, wide=True, demand=3.0)
    # For 200 s the guest needs half a GPU less, the host half of each of its GPUs more; 3 jobs wait per GPU.
    assert gains_s(waiting, np.array([500.0]), running, packing)[0, 0] == pytest.approx(300.0)
    assert gains_s(waiting, np.array([500.0]), wide, packing)[0, 0] == pytest.approx(
        300.0 + 200.0 * 3 * (0.5 - 4 * 0.5)
    )


def test_several_jobs_join_a_wide_one_until_each_of_its_gpus_has_two():
    waiting, running = sharers(*[{"gpus": gpus} for gpus in (1, 2, 2, 1)]), sharers({"gpus": 4}, first=100)
    waits_s, free = np.full(4, 2 * HOUR_S), np.ones(1, dtype=np.bool_)
    assert pairs(waiting, waits_s, running, free, ROOMY) == ()
    made = pairs(waiting, waits_s, running, free, replace(ROOMY, wide=True))
    assert [pair.guest for pair in made] == [1, 2, 4]


def test_without_a_forecast_nobody_shares():
    assert one_pair({"left_s": np.nan}, {})[0] == ()
    assert one_pair({}, {"left_s": np.nan})[0] == ()


def test_each_job_takes_the_host_with_which_most_is_gained():
    waiting = sharers({}, {})
    running = sharers({"gpu_util": 0.9}, {"gpu_util": 0.2}, {"gpu_util": 0.5}, first=100)
    made = pairs(waiting, np.full(2, 2 * HOUR_S), running, np.ones(3, dtype=np.bool_), ROOMY)
    assert [(pair.guest, pair.host) for pair in made] == [(1, 101), (2, 102)]


def test_an_idle_cluster_packs_only_what_the_forecast_asks_for():
    assert capacity(INDOLENT, 1.0, 5.0, 10.0) == INDOLENT
    assert capacity(INDOLENT, 0.2, 5.0, 10.0) == OFF
    assert capacity(INDOLENT, 0.2, 20.0, 10.0) == APATHETIC
    assert capacity(OFF, 0.2, 20.0, 10.0) == OFF


number = st.one_of(st.just(np.nan), st.floats(0.0, 20_000.0))
job = st.fixed_dictionaries(
    {
        "user": st.sampled_from(["alice", "bob"]),
        "kind": st.sampled_from(["a", "b", "c"]),
        "gpus": st.sampled_from([0, 1, 1, 2, 8]),
        "nodes": st.sampled_from([1, 1, 1, 2]),
        "score": st.integers(0, 2),
        "memory_mib": number,
        "gpu_util": st.one_of(st.just(np.nan), st.floats(0.0, 1.0)),
        "kept": st.sampled_from([1.0, 1.0, 0.9, 0.5]),
        "open_gpus": st.sampled_from([0, 1, 2, 8]),
        "speed": st.floats(0.1, 1.0),
        "left_s": number,
        "measured": st.sampled_from([True, True, False]),
        "unstable": st.sampled_from([False, False, True]),
        "barred": st.sampled_from([False, False, True]),
    }
)
rules = st.builds(
    PackingLimits,
    capacity=st.sampled_from([OFF, APATHETIC, INDOLENT, EAGER]),
    wide=st.booleans(),
    curve=st.sampled_from([PackingLimits.curve, ROOMY.curve]),
    least_speed=st.sampled_from([0.0, 0.3, 0.8]),
    least_speed_each=st.sampled_from([0.0, 0.3, 0.8]),
    margin=st.sampled_from([0.0, 0.02]),
    demand=st.sampled_from([0.0, 0.5, 4.0]),
    memory_mib=st.floats(0.0, 30_000.0),
    other_users=st.booleans(),
    failed=st.frozensets(st.frozensets(st.sampled_from("abc"), min_size=1, max_size=2), max_size=2),
)


def may_pack(guest: dict, host: dict, packing: PackingLimits) -> bool:
    """Every rule once more, in the plainest words."""
    for side in (guest, host):
        if not side["measured"] or side["unstable"] or side["barred"]:
            return False
        if side["nodes"] != 1 or side["gpus"] == 0:
            return False
    if guest["gpus"] > host["open_gpus"] or packing.capacity == OFF:
        return False
    if guest["gpus"] != host["gpus"] and not packing.wide:
        return False
    heavy = np.nan_to_num(guest["gpu_util"] + host["gpu_util"], nan=2.0)
    speeds = [np.interp(heavy, *zip(*packing.curve, strict=True)) * side["kept"] for side in (guest, host)]
    if sum(speeds) / 2.0 < packing.least_speed + packing.margin or min(speeds) < packing.least_speed_each:
        return False
    if guest["score"] + host["score"] > packing.capacity:
        return False
    if not guest["memory_mib"] + host["memory_mib"] <= packing.memory_mib:
        return False
    if guest["user"] != host["user"] and not packing.other_users:
        return False
    return not any(kinds <= {guest["kind"], host["kind"]} for kinds in packing.failed)


@given(st.lists(job, max_size=6), st.lists(st.tuples(job, st.booleans()), max_size=6), rules, st.floats(0.0, 1e5))
def test_an_unpackable_pair_is_never_packed_and_no_gpu_has_three_jobs(guests, hosts, packing, wait_s):
    waiting = sharers(*guests)
    running, free = (
        sharers(*(host for host, _ in hosts), first=100),
        np.array([alone for _, alone in hosts], dtype=bool),
    )
    made = pairs(waiting, np.full(len(guests), wait_s), running, free, packing)
    for pair in made:
        guest, (host, alone) = guests[pair.guest - 1], hosts[pair.host - 100]
        assert alone
        assert pair.gain_s > 0.0
        assert may_pack(guest, host, packing)
        assert why_not(waiting, pair.guest - 1, running, pair.host - 100, packing) == ""
    assert max(Counter(pair.guest for pair in made).values(), default=1) == 1
    joined: Counter[int] = Counter()
    for pair in made:
        joined[pair.host] += guests[pair.guest - 1]["gpus"]
    assert all(gpus <= hosts[host - 100][0]["open_gpus"] for host, gpus in joined.items())
    ok = allowed(waiting, running, packing)
    for row, guest in enumerate(guests):
        for column, (host, _) in enumerate(hosts):
            assert ok[row, column] == may_pack(guest, host, packing)
            assert ok[row, column] == (why_not(waiting, row, running, column, packing) == "")


@given(st.lists(job, max_size=6), st.lists(job, max_size=6), rules, st.randoms(use_true_random=False))
def test_the_pairs_do_not_depend_on_the_order_of_the_running_jobs(guests, hosts, packing, random):
    waiting, running = sharers(*guests), sharers(*hosts, first=100)
    order = list(range(len(hosts)))
    random.shuffle(order)
    wait_s, free = np.full(len(guests), 5e4), np.ones(len(hosts), dtype=np.bool_)
    shuffled = pairs(waiting, wait_s, running.take(np.array(order, dtype=np.int64)), free, packing)
    assert shuffled == pairs(waiting, wait_s, running, free, packing)


def one_after_the_other(waiting: Sharers, wait_s: np.ndarray, running: Sharers, packing: PackingLimits):
    """What pairs() promises, in plain words: each in its turn takes the host that gains most, else the oldest."""
    hosts, made = running.take(np.argsort(running.job_id)), []
    for guest in range(len(waiting)):
        one = waiting.take(np.array([guest]))
        fits, gain_s = allowed(one, hosts, packing)[0], gains_s(one, wait_s[[guest]], hosts, packing)[0]
        able = [host for host in range(len(hosts)) if fits[host] and gain_s[host] > 0.0]
        if able:
            host = max(able, key=lambda host: gain_s[host])  # the first among equals
            made.append((waiting.job_id[guest], hosts.job_id[host], gain_s[host]))
            hosts = hosts.with_guest(host, one, 0, packing)
    return made


@given(st.lists(job, max_size=8), st.lists(job, max_size=8), rules, st.floats(0.0, 1e5))
def test_each_job_in_turn_takes_the_best_host_that_is_left(guests, hosts, packing, wait_s):
    waiting, running, waits_s = sharers(*guests), sharers(*hosts, first=100), np.full(len(guests), wait_s)
    made = pairs(waiting, waits_s, running, np.ones(len(hosts), dtype=np.bool_), packing)
    assert [tuple(pair) for pair in made] == one_after_the_other(waiting, waits_s, running, packing)


@pytest.mark.parametrize(("users", "other_users", "wide"), [(1, False, False), (40, False, True), (3, True, True)])
def test_a_long_queue_is_paired_as_if_one_job_came_after_the_other(users, other_users, wide):
    random = np.random.default_rng(users)

    def many(count: int, first: int) -> Sharers:
        texts, gpus = [f"user{number}" for number in random.integers(0, users, count)], random.integers(0, 5, count)
        return Sharers(
            job_id=random.permutation(count) + first,
            user=Labels.of(texts),
            kind=Labels.of([f"kind{number}" for number in random.integers(0, 5, count)]),
            gpus=gpus,
            open_gpus=gpus,
            nodes=np.ones(count, dtype=np.int64),
            score=random.integers(0, 3, count),
            memory_mib=random.choice([2_000.0, 9_000.0, 15_000.0, np.nan], count),
            gpu_util=random.choice([0.2, 0.5, 0.9, np.nan], count),
            kept=random.choice([0.7, 1.0], count),
            speed=np.ones(count),
            left_s=random.choice([HOUR_S, 2 * HOUR_S, 50 * HOUR_S], count),
            measured=random.random(count) < 0.9,
            unstable=random.random(count) < 0.1,
            barred=random.random(count) < 0.1,
        )

    waiting, running = many(900, 1), many(200, 10_000)
    packing = replace(ROOMY, other_users=other_users, wide=wide, failed=frozenset({frozenset({"kind1", "kind2"})}))
    wait_s = np.sort(random.uniform(0, 3 * HOUR_S, len(waiting)))
    made = pairs(waiting, wait_s, running, np.ones(len(running), dtype=np.bool_), packing)
    assert len(made) > 20
    assert [tuple(pair) for pair in made] == one_after_the_other(waiting, wait_s, running, packing)


def test_who_can_gain_nothing_costs_nothing():
    many = sharers(*({} for _ in range(4_000)))
    light, hopeless = replace(many, gpu_util=np.full(4_000, 0.9)), np.full(4_000, 60.0)
    hosts = replace(many, job_id=many.job_id + 10_000, left_s=np.full(4_000, 50 * HOUR_S))
    tracemalloc.start()
    made = pairs(light, hopeless, hosts, np.ones(4_000, dtype=np.bool_), ROOMY)
    _, most_b = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert made == ()
    assert most_b < 50e6, "far less than a number for each of sixteen million pairs"


def test_a_host_that_suits_all_makes_the_others_cost_no_more():
    many, hosts = sharers(*({} for _ in range(8_000))), sharers(*({} for _ in range(1_000)), first=10_000)
    left_s = np.where(np.arange(1_000) == 7, 60.0, 50 * HOUR_S)
    long, hosts = replace(many, left_s=np.full(8_000, 50 * HOUR_S)), replace(hosts, left_s=left_s)
    tracemalloc.start()
    made = pairs(long, np.full(8_000, HOUR_S), hosts, np.ones(1_000, dtype=np.bool_), ROOMY)
    _, most_b = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [(pair.guest, pair.host) for pair in made] == [(long.job_id[0], hosts.job_id[7])]
    assert most_b < 50e6, "far less than a number for each of eight million pairs"
