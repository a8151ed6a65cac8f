"""Fair share over a tree of accounts: Fair Tree, and the classic formula."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.records.associations import OF_PARENT, AssociationTable
from slurmsched.simulator.slurmctld.fair_share import Usage, add, share_out
from slurmsched.simulator.slurmctld.shared_accounts import SharedAccounts
from slurmsched.simulator.workload.workload import Workload, workload


@dataclass
class Drawn:
    """An account, or a user if it has no children."""

    name: str
    shares: int
    used_s: int = 0
    children: list[Drawn] | None = None
    level: float = field(default=np.nan, init=False)

    @property
    def whole_s(self) -> int:
        return self.used_s if self.children is None else sum(child.whole_s for child in self.children)

    def siblings(self) -> Iterator[Drawn]:
        """Those that share: the children of an account with the shares of its parent are its siblings."""
        for child in self.children or ():
            if child.children is not None and child.shares == OF_PARENT:
                yield from child.siblings()
            else:
                yield child

    def users(self) -> Iterator[Drawn]:
        for child in self.children or ():
            yield from [child] if child.children is None else child.users()


def ranked(root: Drawn) -> dict[str, float]:
    """Fair Tree in plain words, with one order of siblings in a tie: users, then accounts as they were added."""
    many, factors = len(list(root.users())), {}
    rank, left = many, many

    def visit(account: Drawn, tied: bool) -> None:
        nonlocal rank, left
        among = list(account.siblings())
        shares = sum(one.shares for one in among if one.shares != OF_PARENT)
        for one in among:
            if one.shares == OF_PARENT:
                one.level = np.inf
            elif one.shares == 0:
                one.level = 0.0
            elif one.whole_s == 0:
                one.level = np.inf
            else:
                one.level = (one.shares / shares) / (one.whole_s / account.whole_s)
        among.sort(key=lambda one: (-one.level, one.children is not None))
        for at, one in enumerate(among):
            tie = tied if at == 0 else one.level == among[at - 1].level
            if one.children is not None:
                visit(one, tie)
                continue
            rank = rank if tie else left
            factors[one.name] = rank / many
            left -= 1

    visit(root, False)
    return factors


def table(root: Drawn) -> AssociationTable:
    rows: list[tuple[str, str, str, int]] = [("root", "", "", 1)]

    def visit(account: Drawn) -> None:
        for child in account.children or ():
            if child.children is None:
                rows.append((account.name, child.name, "", child.shares))
            else:
                rows.append((child.name, "", account.name, child.shares))
                visit(child)

    visit(root)
    account, user, parent, shares = zip(*rows, strict=True)
    return AssociationTable(
        account=Labels.of(account),
        user=Labels.of(user),
        partition=Labels.of([""] * len(rows)),
        parent=Labels.of(parent),
        default=np.ones(len(rows), dtype=bool),
        shares=np.array(shares),
        priority=np.zeros(len(rows), dtype=np.int64),
    )


def used(root: Drawn) -> tuple[SharedAccounts, Usage, Workload]:
    """The tree with the usage of its users, and a job of each."""
    users, associations = list(root.users()), table(root)
    account = {user: name for name, user in zip(associations.account, associations.user, strict=True)}
    jobs = workload(len(users), user=[one.name for one in users], account=[account[one.name] for one in users])
    accounts = SharedAccounts.of(jobs, associations)
    usage = accounts.usage(jobs)
    for row, one in zip(usage.of_job.tolist(), users, strict=True):
        add(usage.shares, row, float(one.used_s))
    return accounts, usage, jobs


@st.composite
def trees(draw) -> Drawn:
    """A tree of at most three levels, many ties and many who have used nothing."""
    number = iter(range(1000))
    shares = st.sampled_from([1, 1, 1, 2, 5, 0, OF_PARENT])
    user = st.builds(lambda s, u: Drawn(f"u{next(number)}", s, u), shares, st.sampled_from([0, 0, 6, 10, 12, 60]))

    def account(below: st.SearchStrategy[Drawn]) -> st.SearchStrategy[Drawn]:
        return st.builds(
            lambda s, children: Drawn(f"a{next(number)}", s, children=children), shares, st.lists(below, max_size=4)
        )

    low = account(user)
    return Drawn("root", 1, children=draw(st.lists(user | low | account(user | low), min_size=1, max_size=4)))


@examples(200)
@given(trees())
def test_a_walk_through_drawn_trees_ranks_users_as_fair_tree_does(root):
    _, usage, _ = used(root)
    share_out(usage.shares, True, 1.0)
    factors = dict(zip([one.name for one in root.users()], usage.shares.fair[usage.of_job].tolist(), strict=True))
    assert factors == pytest.approx(ranked(root))


@examples(100)
@given(trees(), st.integers(1, 40))
def test_ranks_are_the_same_whatever_the_unit_of_usage_and_however_siblings_lay(root, exponent):
    _, usage, _ = used(root)
    share_out(usage.shares, True, 1.0)
    for one in root.users():
        one.used_s *= 2**exponent
    _, other, _ = used(root)
    for first, last in zip(other.shares.first.tolist(), other.shares.last.tolist(), strict=True):
        other.shares.child[first:last] = other.shares.child[first:last][::-1]
    share_out(other.shares, True, 1.0)
    assert other.shares.fair.tolist() == usage.shares.fair.tolist()


def test_classic_fair_share_follows_the_effective_usage_of_accounts_with_unequal_shares():
    light, heavy, alone = Drawn("light", 1, 0), Drawn("heavy", 3, 60), Drawn("alone", 1, 40)
    _, usage, _ = used(
        Drawn("root", 1, children=[Drawn("a", 3, children=[light, heavy]), Drawn("b", 1, children=[alone])])
    )
    share_out(usage.shares, False, 1.0)
    of_light, of_heavy = 0.6 * 0.25, 0.6 + 0.0 * 0.75
    effective = np.array([of_light, of_heavy, 0.4])
    shares = np.array([0.75 * 0.25, 0.75 * 0.75, 0.25])
    assert usage.shares.fair[usage.of_job] == pytest.approx(2.0 ** -(effective / shares))
    share_out(usage.shares, False, 2.0)
    assert usage.shares.fair[usage.of_job] == pytest.approx(2.0 ** -(effective / shares / 2.0))


def test_without_accounts_users_have_equal_shares_whatever_their_accounts():
    jobs = workload(3, user=["a", "b", "a"], account=["x", "y", "z"])
    usage = SharedAccounts.of(jobs, None).usage(jobs)
    add(usage.shares, int(usage.of_job[0]), 30.0)
    share_out(usage.shares, False, 1.0)
    assert usage.of_job.tolist() == [1, 2, 1]
    assert usage.shares.fair[usage.of_job].tolist() == [0.25, 1.0, 0.25]


def test_users_of_whom_slurms_accounts_do_not_tell_have_one_share_of_their_account():
    known = table(Drawn("root", 1, children=[Drawn("a", 3, children=[Drawn("u", 1)])]))
    jobs = workload(4, user=["u", "gone", "gone", "u"], account=["a", "a", "b", ""])
    accounts = SharedAccounts.of(jobs, known)
    shares = accounts.usage(jobs).shares
    assert shares.parent.tolist() == [-1, 0, 1, 1, 0, 4]
    assert accounts.rows_of(jobs).tolist() == [2, 3, 5, 2], "a job without account has the user's default one"
    assert shares.share[1:].tolist() == [0.75, 0.5, 0.5, 0.25, 1.0]
