from __future__ import annotations

import random
from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmsched.cluster.columns import Labels
from slurmsched.models.runtime.name_buckets import FEW, OTHER, NameBuckets, levenshtein

LETTERS = "abcdefghijklmnopqrstuvwxyz_"


def plain(text: str, other: str) -> int:
    """The distance as the textbook has it, one cell at a time."""
    above = list(range(len(other) + 1))
    for row, letter in enumerate(text, 1):
        left = [row]
        for column, there in enumerate(other, 1):
            left.append(min(above[column] + 1, left[-1] + 1, above[column - 1] + (letter != there)))
        above = left
    return above[-1]


def words(number: int, seed: int = 0) -> list[str]:
    pick = random.Random(seed)
    return ["".join(pick.choices(LETTERS, k=pick.randint(4, 30))) for _ in range(number)]


@given(
    st.lists(st.text("abc", max_size=64), min_size=1, max_size=6), st.lists(st.text("abcd", max_size=64), max_size=6)
)
def test_the_distance_is_levenshteins(texts: list[str], others: list[str]):
    assert levenshtein(texts, others).tolist() == [[plain(text, other) for other in others] for text in texts]


def test_distances_of_names_that_are_not_ascii_and_of_none():
    texts, others = ["naïve", "\udc80x", ""], ["naive", "x", "漢字"]
    assert levenshtein(texts, others).tolist() == [[plain(text, other) for other in others] for text in texts]
    assert levenshtein([], others).shape == (0, 3)
    assert levenshtein(texts, []).shape == (3, 0)


def test_names_that_differ_in_numbers_share_a_bucket():
    buckets = NameBuckets.fit(Labels.of(["train_12_v3", "train_7_v10", "eval_1"]))
    assert list(buckets.label(Labels.of(["train_99_v1", "eval_7"]))) == ["train_#_v#", "eval_#"]


def test_a_few_names_are_buckets_of_their_own():
    names = words(FEW)
    assert NameBuckets.fit(Labels.of(names)).speakers == tuple(sorted(names))


def families(size: int = 30) -> list[str]:
    pick = random.Random(1)
    return [
        stem + "".join(pick.choices(LETTERS, k=2))
        for stem in ("imagenet_classify_", "protein_folding_", "weather_ensemble_")
        for _ in range(size)
    ]


def test_many_names_fall_into_the_families_they_resemble():
    buckets = NameBuckets.fit(Labels.of(families()))
    found = buckets.speakers_of(families())
    assert len(set(found)) < 45
    assert all(speaker.split("_")[0] == name.split("_")[0] for name, speaker in zip(families(), found, strict=True))


def test_a_new_name_joins_the_nearest_bucket_if_one_is_near():
    buckets = NameBuckets.fit(Labels.of(families()))
    assert buckets.speakers_of(["protein_foldinng_zz"])[0].startswith("protein")
    assert buckets.speakers_of(["qqqqqqqq"]) == [OTHER]


def test_a_job_without_a_name_has_no_bucket():
    assert NameBuckets.fit(Labels.of(families())).speakers_of([""]) == [""]


def test_names_that_were_asked_for_before_keep_their_buckets_among_new_ones():
    buckets = NameBuckets.fit(Labels.of(families()))
    first = Labels.of(["protein_foldinng_zz", "", *families()])
    once = list(buckets.label(first))
    longer = Labels.of(["qqqqqqqq", *reversed(list(first)), "protein_x"])
    assert list(buckets.label(longer))[1:-1] == once[::-1]
    assert list(buckets.label(longer)) == buckets.speakers_of(longer)
    assert list(buckets.label(first.take(slice(0, 0)))) == []


def test_without_history_every_name_is_another():
    assert NameBuckets.fit(Labels.of([])).speakers_of(["train"]) == [OTHER]


def test_the_order_of_names_changes_nothing():
    names = words(120) * 2
    shuffled = names.copy()
    random.Random(3).shuffle(shuffled)
    assert NameBuckets.fit(Labels.of(names)).stems == NameBuckets.fit(Labels.of(shuffled)).stems


def test_buckets_are_the_same_after_writing_and_reading():
    buckets = NameBuckets.fit(Labels.of(families()))
    asked = [*families(), "protein_x", "something else", ""]
    assert NameBuckets.of(buckets.stems).speakers_of(asked) == buckets.speakers_of(asked)


def test_buckets_that_are_no_texts_are_refused():
    with pytest.raises(ValueError, match="a stem without any text"):
        NameBuckets.of({"a": 1})


def test_one_user_with_ten_thousand_names_stays_cheap():
    pytest.importorskip("sklearn.cluster")
    names = Labels.of(words(10_000))
    began = thread_time()
    buckets = NameBuckets.fit(names)
    assert thread_time() - began < 2
    assert len(buckets.speakers) < 300
