"""A trial of the policy beside a real Slurm, from its start to what it found: its blocks take half a minute."""

from __future__ import annotations

import time

import pytest
from lab_site import Site

from slurmsched.cluster.records.trial import Trial

BLOCK_S, WASHOUT_S, BLOCKS = 30.0, 8.0, 8


def trial_of(site):
    """The latest trial as `trial status` tells it."""
    (trial,) = site.said("trial", "status")["trials"]
    return trial


@pytest.mark.soak
def test_a_trial_runs_from_its_first_block_over_a_restart_to_its_verdict_and_leaves_the_policy_in_force(lab):
    site = Site.of(lab)
    site.fill()
    jobs = site.queue(3)
    seen: dict[bool, int] = {True: 0, False: 0}
    with site.daemon() as daemon:
        site.until(lambda: site.ordered(jobs), "our order before the trial")
        # Blocks of ten minutes are the shortest that the settings allow: the row is written as the command writes it.
        trial = Trial(float(int(time.time())), "root", 7, BLOCK_S, WASHOUT_S, BLOCKS, harm_s=0.0)
        with site.store() as store:
            assert store.start_trial(lab.cluster, trial)

        def watch(until_s):
            """Let jobs come, and look whether Slurm has our points late in each block."""
            while time.time() < until_s:
                site.queue(1)
                block = trial.block(time.time())
                points = site.points()
                after = trial.block(time.time())
                if block is not None and block == after and time.time() > block.from_s + BLOCK_S / 2:
                    ours = any(points.get(job) for job in jobs)
                    seen[block.acts] += ours is block.acts
                time.sleep(1.0)

        watch(trial.started_s + 4 * BLOCK_S)
        daemon.terminate()
        daemon.wait(90.0)
    with site.daemon():
        watch(trial.until_s)
        site.until(lambda: trial_of(site)["ending"] == "over", "the end of the trial", 180.0)
        site.until(lambda: site.ordered(jobs), "our order after the trial")
    assert min(seen.values()) > 0, "points came and went with the blocks"
    told = trial_of(site)
    assert told["pairs"] + told["left_out"] == BLOCKS // 2
    assert told["pairs"] >= 1, "a busy machine costs some"
    (every, *_) = told["effects"]
    assert every["jobs"] > 0
    assert (every["low_s"] is not None) is (told["pairs"] >= 3 and every["jobs"] >= 20)
    report = site.said("report", "--since", "1h")
    assert [one["ending"] for one in report["trials"]] == ["over"]
    assert report["trials"][0]["effects"][0]["jobs"] == every["jobs"]
