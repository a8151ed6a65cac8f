"""Waiting on a machine that may stand still at any moment."""

from __future__ import annotations

import time

import pytest

from slurmsched.errors import LabError
from slurmsched.lab.waiting import wait_until


def test_what_came_true_while_the_machine_stood_still_is_seen():
    looks: list[float] = []

    def came() -> bool:
        looks.append(time.monotonic())
        time.sleep(0.2)  # longer than the wait may last
        return len(looks) > 1

    assert wait_until(came, 0.1, "what came meanwhile")


def test_a_wait_in_vain_ends_and_names_what_did_not_come():
    began_s = time.monotonic()
    with pytest.raises(LabError, match=r"waited 0\.1 s in vain for the end of time"):
        wait_until(lambda: False, 0.1, "the end of time")
    assert time.monotonic() - began_s >= 0.1
