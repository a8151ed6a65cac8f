"""The small Slurm in memory, where it says more than the port promises."""

from __future__ import annotations

import numpy as np

from slurmsched.slurm.adapters.fake import FakeSlurm


def test_the_deadline_of_a_comment_is_told_in_unix_seconds_the_local_one_in_utc():
    slurm = FakeSlurm()
    for said in ("+2h", "2026-12-01T18:00", "soon", "2026-12-01T18:00+01:00"):
        slurm.submit(60, comment=f"slurmsched:deadline={said}")
    slurm.submit(60)
    six_s = 1_796_148_000.0
    assert slurm.observe().pending.deadline_s.tolist() == [1_007_200, six_s, np.inf, six_s - 3600, np.inf]
