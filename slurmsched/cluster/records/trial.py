"""A trial of the policy: blocks of time with it and without it, and what was counted in them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

Ending = Literal["", "over", "stopped", "harm"]
"""How a trial ended: not yet, after its last block, by an admin, or because an account waited too much longer."""

LEAST_BLOCKS, MOST_BLOCKS = 6, 10_000


class Block(NamedTuple):
    """A block of a trial."""

    number: int
    acts: bool  #: True with the policy, False without it
    from_s: float  #: Unix time
    until_s: float
    measured_from_s: float  #: what is counted begins here, after the washout


@dataclass(frozen=True)
class Trial:
    """A switchback trial: blocks in pairs, of each pair one with the policy, chosen by *seed*.

    Nothing but these values says which block is which: any daemon of the cluster, after any restart, finds the same.
    """

    started_s: float  #: Unix time
    by: str
    seed: int
    block_s: float
    washout_s: float  #: the first part of each block, in which jobs of the block before still count
    blocks: int  #: an even number
    harm_s: float  #: more mean wait of an account that ends the trial; 0 for no bound
    holdout: float = 0.0  #: share of jobs that keep the place of Slurm's own order in all blocks
    ended_s: float = math.nan
    ending: Ending = ""
    detail: str = ""  #: of the ending, in a sentence
    released_s: float = math.nan  #: when an admin let the policy go on after harm

    @property
    def runs(self) -> bool:
        """True until it has ended."""
        return not self.ending

    @property
    def keeps_off(self) -> bool:
        """True if it ended by harm, and no admin has said since that the policy goes on."""
        return self.ending == "harm" and math.isnan(self.released_s)

    @property
    def until_s(self) -> float:
        """When its last block ends."""
        return self.started_s + self.blocks * self.block_s

    def block(self, now_s: float) -> Block | None:
        """Return the block at *now_s*; None before the first and after the last one."""
        number = math.floor((now_s - self.started_s) / self.block_s)
        return self.numbered(number) if self.runs and 0 <= number < self.blocks else None

    def numbered(self, number: int) -> Block:
        """Return a block by its number."""
        from_s = self.started_s + number * self.block_s
        first = bool(np.random.default_rng((self.seed, number // 2)).integers(2))
        return Block(number, first == (number % 2 == 0), from_s, from_s + self.block_s, from_s + self.washout_s)


class TrialSums(NamedTuple):
    """What was counted in the measured part of a block, of an account; of nobody's the time."""

    counted_s: float = 0.0  #: seconds between cycles; those of the whole block, in rows without an account
    waited_s: float = 0.0  #: seconds that its jobs waited
    came: float = 0.0  #: jobs that began to wait, or started at once
    held_out_s: float = 0.0  #: seconds that held-out jobs among them waited
    held_out: float = 0.0  #: of those that came

    def plus(self, more: TrialSums) -> TrialSums:
        """Return the sums of both."""
        return TrialSums(*(a + b for a, b in zip(self, more, strict=True)))


class OfBlock(NamedTuple):
    """Whose sums these are."""

    block: int
    account: str  #: empty for the time of the block
