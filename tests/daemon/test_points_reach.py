"""Whether a factor of Slurm's priority outweighs the points."""

from __future__ import annotations

import pytest
from cli.fake_site import FakeSite, run

FAIR = {"PriorityType": "priority/multifactor", "PriorityWeightFairShare": "10000"}


def finding(directory, settings: str, **weights: str) -> str:
    site = FakeSite(directory, f"[policy]\nordering = 'sjf'\n{settings}")
    site.slurm.config.update(FAIR | weights)
    for base in (9_000, 200):
        site.slurm.submit(100.0, gpus=64, base=base)
    lines = run(site, "check").output.splitlines()
    at = next(number for number, line in enumerate(lines) if "reach of points" in line)
    return "\n".join(lines[at : at + 2])


def test_fair_share_that_outweighs_the_points_is_told_with_the_setting_to_choose(tmp_path):
    said = finding(tmp_path, "[order]\nmax_points = 99\n")
    assert said.startswith("-")
    assert "fair share weighs up to 10,000 points, a job gets at most 99 of ours" in said
    assert "jobs that wait now are up to 8,800 apart" in said
    assert 'scope = "queue", or max_points = 1' in said


@pytest.mark.parametrize("order", ["scope = 'queue'", "max_points = 20000"])
def test_with_that_setting_nothing_outweighs_our_order(tmp_path, order):
    assert finding(tmp_path, f"[order]\n{order}\n").startswith("ok")
