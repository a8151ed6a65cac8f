"""Policies in TOML files."""

from __future__ import annotations

import math
from dataclasses import fields
from pathlib import Path
from typing import get_type_hints

import click
import pytest

from slurmsched.cli.study.simulate_keys import POLICY, set_values
from slurmsched.config.settings import PolicySettings
from slurmsched.errors import ConfigError
from slurmsched.policies.admission import load_of
from slurmsched.simulator.policy_file import read_policy
from slurmsched.simulator.policy_keys import POLICY_KEYS
from slurmsched.simulator.setup import EVERY_S, Setup


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "mine.toml"


def test_every_part_can_be_said(file):
    file.write_text(
        "[policy]\nname = 'ours'\nordering = 'las'\nselection = 'backfill'\nplacement = 'pool'\n"
        "admission = 'load:1.2'\nforecast = 'limit'\nrestart_s = 30\nrestart_doubling_s = 2.5\nbeat_s = 60\n"
        "depth = 50\n"
    )
    setup = read_policy(file)
    assert (setup.name, setup.ordering.name, setup.selection, setup.placement) == ("ours", "las", "backfill", "pool")
    assert (setup.admission, setup.forecast, setup.depth) == (1.2, "limit", 50)
    assert (setup.restart_s, setup.restart_doubling_s, setup.beat_s) == (30.0, 2.5, 60.0)


def test_parts_of_lucid_can_be_left_out_or_put_in(file):
    file.write_text(
        "[policy]\nordering = 'lucid'\nwide_hosts = false\nprofile_nodes = 2\nprofile_gpus = 4\nprofile_s = 60\n"
    )
    setup = read_policy(file)
    assert (setup.wide_hosts, setup.profile_nodes, setup.profile_gpus, setup.profile_s) == (False, 2, 4, 60.0)
    file.write_text("[policy]\nordering = 'lucid'\nprofile_nodes = 0\n")
    assert read_policy(file).profile_nodes == 0


def test_a_daemons_policy_is_read_too(file):
    own = "preemption = 'least-loss'\nprofiling = 'new-jobs'\nstarvation_s = 60\n"
    file.write_text(f"[policy]\nordering = 'sjf'\nselection = 'slurm'\nplacement = 'slurm'\n{own}")
    assert (read_policy(file).executor, read_policy(file).selection) == ("slurm", "easy")
    file.write_text("[policy]\npreset = 'tiresias'\nplacement = 'first-free'\n")
    setup = read_policy(file)
    assert (setup.ordering.name, setup.selection, setup.placement) == ("tiresias", "preemptive", "first-free")


def test_every_setting_of_a_daemons_policy_is_a_key(file):
    said = {one.name: getattr(PolicySettings, one.name) for one in fields(PolicySettings)} | {"shadow": "sjf"}
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in said.items()}
    file.write_text("[policy]\n" + "".join(f"{name} = {value!r}\n" for name, value in plain.items()))
    assert read_policy(file).executor == "slurm"
    file.write_text("[policy]\nordering = 'sjf'\nshadow = 'mine'\n")
    with pytest.raises(ConfigError, match=r"mine\.toml: \[policy\]: .*'mine' is not known"):
        read_policy(file)


@pytest.mark.parametrize("hook", ["preemption", "profiling"])
def test_a_part_that_decides_on_a_cluster_alone_exists(file, hook):
    file.write_text(f"[policy]\nordering = 'sjf'\n{hook} = 'mine'\n")
    with pytest.raises(ConfigError, match=rf"mine\.toml: \[policy\]: policy\.{hook} = 'mine' is not known; there are"):
        read_policy(file)


def test_the_rule_of_pairs_is_one_key_for_both(file):
    file.write_text("[policy]\nordering = 'sjf'\nsharing = 'indolent'\n")
    assert read_policy(file).sharing == "indolent"
    file.write_text("[policy]\nordering = 'sjf'\nselection = 'slurm'\nsharing = 'indolent'\n")
    assert read_policy(file).sharing == "", "without the [share] of a site no jobs share on Slurm"
    file.write_text("[policy]\npreset = 'lucid'\n")
    assert read_policy(file).sharing == "indolent"
    file.write_text("[policy]\npreset = 'lucid'\nsharing = 'none'\n")
    assert read_policy(file).sharing == "none"


def test_what_is_not_said_is_as_asked_or_as_in_the_preset(file):
    file.write_text("[policy]\nordering = 'srtf'\nrestart_s = 5.0\n")
    setup = read_policy(file, restart_s=60.0, placement="pool")
    assert (setup.name, setup.selection, setup.restart_s, setup.placement) == ("mine", "preemptive", 5.0, "pool")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[policy]\nordering = 'las'\nspeed = 2\n",
            r"mine\.toml: \[policy\]: 'speed' is no key; accepted are ordering, sel",
        ),
        ("[policy]\nordering = 'las'\nrestart_s = 'long'\n", "restart_s = 'long': accepted is a number"),
        ("[policy]\nordering = 'las'\nrestart_s = -1\n", "restart_s = -1.0: accepted are finite numbers from 0 on"),
        ("[policy]\nordering = 'las'\nbeat_s = nan\n", "beat_s = nan: accepted are finite numbers from 0 on"),
        ("[policy]\nordering = 'las'\ndepth = 0\n", r"\[policy\]: depth = 0: accepted are finite numbers from 1 on"),
        ("[policy]\nordering = 'las'\ndepth = 1.5\n", "depth = 1.5: accepted is a whole number"),
        ("[policy]\nordering = 'las'\ndepth = true\n", "depth = True: accepted is a whole number"),
        ("[policy]\nordering = 'lucid'\nprofile_s = 0\n", "profile_s 0.0 makes no sense; accepted: seconds, above 0"),
        ("[policy]\nordering = 'lucid'\nwide_hosts = 1\n", "wide_hosts = 1: accepted is true or false"),
        ("[policy]\nordering = 'las'\nadmission = 'few'\n", "'few' is not known; there are: accept-all, load"),
        ("[policy]\nordering = 'best'\n", r"mine\.toml: \[policy\]: .*'best' is not known; there are: "),
        ("[policy]\nordering = 'las'\nselection = 'best'\n", "there are: 3sigma, backfill"),
        ("[policy]\nordering = 'las'\nsharing = 'best'\n", "policy.sharing = 'best' is not known; there are: in"),
        ("[policy]\nordering = 'las'\nselection = 'slurm'\nsharing = 'best'\n", "'best' is not known; there are: in"),
        ("[policy]\nname = 'x'\n", "needs an ordering"),
        ("[policies]\n", r"'policies' is not known here; accepted are \[policy\]"),
        ("[[policy]]\n", r"'policy' must be written as \[policy\]"),
        ("", r"there is no \[policy\]"),
        ("policy", "is not TOML"),
    ],
)
def test_what_is_wrong_is_named_with_file_and_what_is_accepted(file, text, said):
    file.write_text(text)
    with pytest.raises(ConfigError, match=said):
        read_policy(file)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.toml: cannot be read: No such file"):
        read_policy(tmp_path / "none.toml")


def test_admission_is_a_bound():
    assert load_of("accept-all") == math.inf
    assert load_of("load:0.5") == 0.5


@pytest.mark.parametrize("said", ["load", "load:", "load:0", "load:-1", "load:inf", "load:1e999", "load:1.2.3", "1.2"])
def test_an_admission_that_bounds_nothing_is_refused(said):
    with pytest.raises(ConfigError, match=r"load:X with X above 0|there are: accept-all, load"):
        load_of(said)


def test_the_bound_of_a_daemons_policy_counts_beside_slurm_too(file):
    file.write_text("[policy]\nordering = 'sjf'\nselection = 'slurm'\nadmission = 'load:1.2'\n")
    setup = read_policy(file)
    assert (setup.executor, setup.admission) == ("slurm", 1.2)
    assert setup.admits is not None
    assert setup.admits.part == "load:1.2"


def test_a_lease_is_carried_out_beside_slurm_and_where_plans_happen_as_they_are(file):
    file.write_text("[policy]\nordering = 'las'\nselection = 'slurm'\npreemption = 'lease 10m'\nrestart_s = 62\n")
    leases = read_policy(file).leases
    assert leases is not None
    assert (leases.part, leases.lease_s, leases.restart_s) == ("lease time=10m", 600.0, 62.0)
    file.write_text("[policy]\nordering = 'las'\npreemption = 'lease 10m'\n")
    ideal = read_policy(file)
    assert (ideal.executor, ideal.selection, ideal.beat_s) == ("direct", "preemptive lease_s=600", EVERY_S)
    file.write_text("[policy]\nordering = 'las'\nselection = 'strict'\npreemption = 'lease 10m'\n")
    with pytest.raises(ConfigError, match="selection 'strict' has no leases for the order"):
        read_policy(file)


def test_the_keys_of_files_and_of_set_are_one_list_whose_types_are_those_of_a_setup():
    hints = get_type_hints(Setup)
    assert {name: key.kind for name, key in POLICY_KEYS.items()} == {
        name: hints[name] if hints[name] in (str, bool, int, float) and name != "admission" else str
        for name in POLICY_KEYS
    }
    assert [key.name for key in POLICY] == list(POLICY_KEYS)


def test_each_key_of_set_is_taken_by_a_file_and_a_number_out_of_its_bounds_is_not(tmp_path):
    file = tmp_path / "mine.toml"
    for key in POLICY_KEYS.values():
        if key.kind in (int, float):
            for wrong in (key.least - 1, key.below):
                text = "inf" if wrong == math.inf else str(int(wrong))
                file.write_text(f'[policy]\nordering = "sjf"\n{key.name} = {text}\n')
                with pytest.raises(ConfigError, match=f"{key.name} = "):
                    read_policy(file)
                with pytest.raises(click.UsageError, match=f"--set {key.name}="):
                    set_values([f"{key.name}={'many' if text == 'inf' else text}"])
    file.write_text('[policy]\nordering = "sjf"\nprofile_nodes = 2\n')
    assert read_policy(file).profile_nodes == 2
    assert set_values(["profile_nodes=2", "strict=true"]) == ({"profile_nodes": 2}, {"strict": True})
    file.write_text('[policy]\nordering = "sjf"\nassociations = "none"\n')
    with pytest.raises(ConfigError, match="'associations' is no key; accepted are ordering, selection, "):
        read_policy(file)
