"""A daemon of which nobody has compiled anything: asked at once, and answered without a break."""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from pathlib import Path

import pytest
from lab_site import Site

import slurmsched
from slurmsched.daemon.api.query_arguments import AnswerRefused
from slurmsched.daemon.api.query_protocol import SOCKET, query
from slurmsched.lab.users import nobody_gid

pytest.importorskip("numba")

PUT_OFF = (
    "the daemon is still starting",
    "the answer takes longer than",
    "your other questions of this kind are still",
)


class Fresh(Site):
    """A site that runs a copy of the program of which no compiled code is stored."""

    @property
    def environment(self) -> dict[str, str]:
        copy = self.directory / "program"
        if not copy.exists():
            ours = Path(slurmsched.__file__).parent
            shutil.copytree(ours, copy / "slurmsched", ignore=shutil.ignore_patterns("__pycache__"))
            for path in (copy, *copy.rglob("*")):
                os.chown(path, self.uid, nobody_gid())
        return super().environment | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": ""}


@pytest.mark.soak
@pytest.mark.skipif(os.geteuid() != 0, reason="a daemon under another user needs root")
def test_a_daemon_without_compiled_code_answers_at_once_and_in_full_once_it_has_compiled_it(lab):
    site = Fresh.of(lab, None, predict="enabled = true\nevery_s = 1", deadline="enabled = true")
    site.fill()
    new = "-p gpu -N1 --gres=gpu:1 -t 10"
    questions = [
        {"ask": "check", "options": f"{new} --comment=slurmsched:deadline=+5h"},
        {"ask": "eta_check", "options": new},
        {"ask": "status"},
    ]
    process, took_s, refusals = site.start("env", *site.argv("run")), [], []
    try:
        site.until((site.directory / SOCKET).exists, "the socket")
        open_ = {question["ask"] for question in questions}
        until_s = time.monotonic() + 900.0
        while open_ and time.monotonic() < until_s:
            for question in questions:
                began_s = time.monotonic()
                try:
                    query(site.directory / SOCKET, question)
                    open_.discard(question["ask"])
                except AnswerRefused as refused:
                    refusals.append((question["ask"], str(refused)))
                took_s.append(time.monotonic() - began_s)
            time.sleep(0.2)
        print(Counter(refusals), f"the longest took {max(took_s):.1f} s, the first {took_s[0]:.2f} s")
        assert not open_, site.log[-3000:]
        assert refusals
        assert all(words.startswith(PUT_OFF) and kind != "status" for kind, words in refusals), refusals
    finally:
        process.kill()
        process.wait(90.0)
        shutil.rmtree(site.directory)
