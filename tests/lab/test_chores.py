"""Chores that something else on the machine stands in the way of."""

from __future__ import annotations

import pytest

from slurmsched.errors import LabError
from slurmsched.lab import chores


@pytest.mark.parametrize(
    "words", ["useradd: cannot lock /etc/passwd; try again later.", "userdel: user x is currently used by process 77"]
)
def test_what_another_process_hinders_for_a_moment_is_done_afterwards(tmp_path, words):
    script = f"[ -e {tmp_path}/tried ] && exit; touch {tmp_path}/tried; echo '{words}' >&2; exit 8"
    chores.do(["sh", "-c", script], "a-lab")
    assert (tmp_path / "tried").exists()


def test_what_fails_for_another_reason_is_told_at_once():
    with pytest.raises(LabError, match="no such user"):
        chores.do(["sh", "-c", "echo no such user >&2; exit 6"], "a-lab")
