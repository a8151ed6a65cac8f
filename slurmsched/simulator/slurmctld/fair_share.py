"""Fair share as Slurm computes it, in loops that compile: Fair Tree, and the classic formula.

Usage is decayed GPU-seconds (CPU-seconds of jobs without GPUs), of a user in an account; an account has that of all
below it. A level is the part of the shares among siblings over the part of their usage. Fair Tree ranks users by a walk
that visits the siblings of the highest level first; the factor is the rank over the number of users. The classic
formula is 2^(-usage/shares), both of the whole.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray
from ...policies.compiled import compiled, inner


class Shares(NamedTuple):
    """The tree of accounts and users: the root first, and each before those below it."""

    parent: IntArray  #: -1 of the root
    user: BoolArray
    share: FloatArray  #: of what siblings share; infinite for a user who has the shares of the account
    used_s: FloatArray
    level: FloatArray  #: share over the part of the parent's usage
    fair: FloatArray  #: the factor of a user, 0..1
    child: IntArray  #: rows, siblings beside each other, in the order of the last walk
    first: IntArray  #: where in ``child`` those of a row begin
    last: IntArray  #: and end


class Usage(NamedTuple):
    """The usage of users and accounts, decayed up to a time."""

    of_job: IntArray  #: the row of each job's user in its account
    shares: Shares
    until_s: FloatArray  #: one time


@compiled
def accrue(
    usage: Usage,
    half_life_s: float,
    fair_tree: bool,
    dampening: float,
    rows: IntArray,
    gpus: IntArray,
    cpus: IntArray,
    now_s: float,
) -> None:
    """Advance the usage to *now_s*: it decays, and the running jobs *rows* add to it."""
    passed_s = now_s - usage.until_s[0]
    usage.until_s[0] = now_s
    if passed_s <= 0:
        return
    shares, decay = usage.shares, 0.5 ** (passed_s / half_life_s)
    for at in range(len(shares.used_s)):
        shares.used_s[at] *= decay
    for row in rows:
        add(shares, usage.of_job[row], passed_s * (gpus[row] if gpus[row] else cpus[row]))
    share_out(shares, fair_tree, dampening)


@compiled
def add(shares: Shares, at: int, used_s: float) -> None:
    """Add usage to a user and to all accounts above."""
    while at >= 0:
        shares.used_s[at] += used_s
        at = shares.parent[at]


@compiled
def share_out(shares: Shares, fair_tree: bool, dampening: float) -> None:
    """Compute the factor of each user from the usage."""
    if fair_tree:
        _level(shares)
        _walk(shares)
    else:
        _classic(shares, dampening)


@inner
def _level(shares: Shares) -> None:
    """Compute the levels: 0 without shares, else infinite without usage."""
    for at in range(1, len(shares.parent)):
        whole_s, own_s = shares.used_s[shares.parent[at]], shares.used_s[at]
        if shares.share[at] == 0.0:
            shares.level[at] = 0.0
        elif own_s <= 0.0:
            shares.level[at] = np.inf
        else:
            shares.level[at] = shares.share[at] / (own_s / whole_s)


@inner
def _walk(shares: Shares) -> None:
    """Give each user the rank of a walk through the tree.

    Siblings with equal levels have equal ranks, users before accounts. An account in a tie hands it to its first child,
    and one without children leaves it to the next sibling.
    """
    users = 0
    for at in range(len(shares.parent)):
        users += shares.user[at]
        _sort(shares, shares.first[at], shares.last[at])
    spot, ties = shares.first.copy(), np.zeros(len(shares.parent), dtype=np.bool_)
    at, rank, left = 0, users, users
    while at >= 0:
        place = spot[at]
        if place == shares.last[at]:
            at = shares.parent[at]
            continue
        spot[at] += 1
        one = shares.child[place]
        tied = ties[at] if place == shares.first[at] else shares.level[one] == shares.level[shares.child[place - 1]]
        if not shares.user[one]:
            ties[one] = tied
            at = one
            continue
        if not tied:
            rank = left
        shares.fair[one] = rank / users
        left -= 1


@inner
def _sort(shares: Shares, first: int, last: int) -> None:
    """Sort siblings, the highest level first; most are in order already."""
    child = shares.child
    for place in range(first + 1, last):
        one, spot = child[place], place
        while spot > first and _precedes(shares, one, child[spot - 1]):
            child[spot] = child[spot - 1]
            spot -= 1
        child[spot] = one


@inner
def _precedes(shares: Shares, one: int, other: int) -> bool:
    """Return True if a sibling comes before another one: by level, then users, then in Slurm's order."""
    if shares.level[one] != shares.level[other]:
        return bool(shares.level[one] > shares.level[other])
    if shares.user[one] != shares.user[other]:
        return bool(shares.user[one])
    return bool(one < other)


@inner
def _classic(shares: Shares, dampening: float) -> None:
    """Compute the factors from the effective usage, to which each account adds a part of what it used besides."""
    used, whole = np.ones(len(shares.parent)), np.ones(len(shares.parent))
    for at in range(1, len(shares.parent)):
        above, share = shares.parent[at], shares.share[at]
        own = shares.used_s[at] / shares.used_s[0] if shares.used_s[0] > 0 else 0.0
        if np.isinf(share):
            used[at], whole[at] = used[above], whole[above]
        else:
            whole[at] = whole[above] * share
            used[at] = own if above == 0 else own + (used[above] - own) * share
        shares.fair[at] = 2.0 ** (-used[at] / whole[at] / dampening) if whole[at] > 0 else 0.0
