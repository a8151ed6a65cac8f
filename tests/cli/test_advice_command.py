"""What ``advice`` prints beside who gains and loses."""

from __future__ import annotations

from slurmsched.cli.jobs.advice import (
    BEYOND,
    LINKS,
    SPREAD,
    STRANDED,
    TYPES,
    sheet,
)
from slurmsched.cli.output import plain


def test_users_whose_runs_go_far_beyond_their_forecasts_are_a_table_of_their_own():
    user = {"user": "mallory", "runs": 9, "times": 899.6, "length_s": 10_800.0, "raised": 0.93}
    head, row = plain(sheet("overrunners", [user])).splitlines()
    assert head.split("  ")[0] == BEYOND[0]
    assert row.split() == ["mallory", "9", "900", "3h00m00s", "93%"]


def test_the_share_of_link_bandwidth_that_runs_lost_is_a_table_of_its_own():
    row = {"gpus": 2, "runs": 40, "gbps": 37.24, "best_gbps": 50.0, "lost": 0.2552}
    head, line = plain(sheet("links", [row])).splitlines()
    assert head.split("  ")[0] == LINKS[0]
    assert line.split() == ["2", "40", "37.2", "50.0", "26%"]


def test_what_spreading_costs_kinds_of_jobs_is_a_table_of_its_own():
    kind = {"kind": "eva/bert", "gpus": 4, "gpu_type": "a100", "runs": 9, "iteration_s": 0.3, "spread_runs": 4}
    head, line = plain(sheet("spread", [kind | {"spread_iteration_s": 0.5, "speed": 0.6}])).splitlines()
    assert head.split("  ")[0] == SPREAD[0]
    assert line.split() == ["eva/bert", "4", "a100", "9", "0.300", "4", "0.500", "60%"]


def test_speeds_by_type_of_gpu_and_stranded_gpus_are_tables_of_their_own():
    kind = {"kind": "eva/bert", "gpus": 4, "gpu_type": "v100", "runs": 9, "seconds": 600.0, "speed": 0.25}
    head, line = plain(sheet("types", [kind])).splitlines()
    assert head.split("  ")[0] == TYPES[0]
    assert line.split() == ["eva/bert", "4", "v100", "9", "600", "25%"]
    owner = {"account": "bio", "user": "bob", "cpu_gpu_hours": 7.5, "memory_gpu_hours": 0.0}
    head, line = plain(sheet("stranded", [owner])).splitlines()
    assert head.split("  ")[0] == STRANDED[0]
    assert line.split() == ["bio", "bob", "7.5", "0.0"]
