"""Chores that something else on the machine stands in the way of."""

from __future__ import annotations

import os
import subprocess

import pytest

from slurmsched.errors import LabError
from slurmsched.lab import chores, users


def test_what_another_process_hinders_for_a_moment_is_done_afterwards(tmp_path):
    words = "useradd: cannot lock /etc/passwd; try again later."
    script = f"[ -e {tmp_path}/tried ] && exit; touch {tmp_path}/tried; echo '{words}' >&2; exit 8"
    chores.do(["sh", "-c", script], "a-lab")
    assert (tmp_path / "tried").exists()


def test_what_fails_for_another_reason_is_told_at_once():
    with pytest.raises(LabError, match="no such user"):
        chores.do(["sh", "-c", "echo no such user >&2; exit 6"], "a-lab")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes users")
def test_a_user_is_deleted_while_another_container_has_a_process_of_the_same_number(tmp_path):
    name = f"ss{os.getpid():x}-gone"
    users.create(name, tmp_path, "a-lab")
    with subprocess.Popen(["sleep", "60"], user=users.uid_of(name)) as process:
        users.remove(name, "a-lab")
        process.kill()
    assert users.uid_of(name) is None
