"""The suite of ``slurmsched policy check`` on our own parts, and on parts of strangers that break one rule each."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from decide.views import jobs, running_jobs, view
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from slurmsched.cli import main
from slurmsched.cluster.columns import FloatArray
from slurmsched.cluster.state import View
from slurmsched.cluster.training import Allocations
from slurmsched.errors import ConfigError
from slurmsched.policies.contract import PROFILINGS, SHARINGS, Ordering, Scaling, find_ordering
from slurmsched.policies.registry import Part
from slurmsched.research.conformance import day
from slurmsched.research.conformance.check import Check
from slurmsched.research.conformance.day import BrokenRule, run_day
from slurmsched.research.conformance.demands import (
    Case,
    demand_declared_changes,
    demand_declared_steps,
    demands_on,
    judged,
)
from slurmsched.research.conformance.judgement import REGISTRIES, Judge
from slurmsched.research.conformance.random_views import random_view
from slurmsched.research.conformance.trials import TRIALS
from slurmsched.research.elastic.divisions import DIVISIONS

FEW, MANY = 6, 50
"""Views for each part, and those in ``make soak``; what is planted below is found with fewer."""
VIEWS = pytest.mark.parametrize("views", [FEW, pytest.param(MANY, marks=pytest.mark.soak)])
SCALING = 0.4
"""The part of these that scalings get, which solve a problem for each."""
IN_A_PROCESS = {"pure", "processes"}
TUNED = [("ordering", "edf rest=remaining"), ("admission", "load 1.2"), ("selection", "easy depth=2")]
"""Lines of parts that behave otherwise with these parameters."""
BUILT_IN = [*((hook, name) for hook, registry in REGISTRIES.items() for name in registry), *TUNED]


def inputs_of(hook: str, views: int) -> int:
    return int(views * SCALING) if hook == "scaling" else views


def part_of(hook: str, line: str) -> Part:
    return REGISTRIES[hook].find(line)


@VIEWS
@pytest.mark.parametrize(("hook", "line"), BUILT_IN)
def test_a_built_in_part_meets_the_demands_on_every_part(hook, line, views):
    case = Case(hook, part_of(hook, line), inputs_of(hook, views))
    names = set(demands_on(hook)) - IN_A_PROCESS - {"day"}
    assert {name: judged(case, name) for name in names if not judged(case, name)[0]} == {}


@pytest.mark.parametrize("jobs", [60, pytest.param(day.JOBS, marks=pytest.mark.soak)])
@pytest.mark.parametrize(
    ("hook", "line"),
    [
        ("ordering", "las"),
        ("selection", "easy"),
        ("admission", "load 1.2"),
        ("placement", "pool"),
        pytest.param("scaling", "sia", marks=pytest.mark.soak),
    ],
)
def test_a_simulated_day_under_a_part_breaks_no_rule(hook, line, jobs, monkeypatch):
    """With fewer jobs it is a part of a day, as busy."""
    monkeypatch.setattr(day, "DAY_S", day.DAY_S * jobs / day.JOBS)
    monkeypatch.setattr(day, "JOBS", jobs)
    assert f"{jobs} jobs ended" in run_day(hook, part_of(hook, line))


@pytest.fixture(scope="module")
def checking() -> Iterator[Check]:
    with closing(Check(count=10)) as check:
        yield check


@VIEWS
def test_no_built_in_part_reads_a_clock_a_file_or_the_network_or_depends_on_chance(checking, views):
    judgements = {
        (hook, line): checking.judge(Judge(hook, line, "pure", inputs_of(hook, views))) for hook, line in BUILT_IN
    }
    assert {part: detail for part, (passed, detail) in judgements.items() if not passed} == {}


def test_every_hook_that_has_a_registry_of_checked_parts_has_trials_and_its_parts_are_ours():
    assert set(REGISTRIES) == set(TRIALS)
    registries = [*REGISTRIES.values(), SHARINGS, DIVISIONS, PROFILINGS]
    assert [part.name for registry in registries for part in registry.values() if not part.built_in] == []


LIARS: dict[str, Callable[[View], FloatArray]] = {
    "the time": lambda seen: seen.now_s - seen.pending.first_submit_s,
    "the nodes": lambda seen: seen.pending.gpus + float(seen.nodes.gpus_used.sum()),
    "the running jobs": lambda seen: seen.pending.gpus + float(len(seen.running)),
    "the other pending jobs": lambda seen: seen.pending.gpus / seen.pending.gpus.sum(),
    "the time it ran": lambda seen: seen.pending.ran_s,
}


@pytest.mark.parametrize("reads", LIARS)
def test_a_false_declaration_is_found(reads):
    seen = view(jobs(3, gpus=[1, 2, 64]), running=running_jobs(2))
    with pytest.raises(BrokenRule):
        demand_declared_changes(Ordering("liar", LIARS[reads], "Lies.", changes="never"), seen, np.array([2, 0]))


SCALINGS_THAT_BREAK_A_RULE = {
    "gives more GPUs than": lambda view: Allocations(view.jobs.held + 5),
    "has more GPUs than it can use": lambda view: Allocations(
        np.where(view.jobs.job_id[:, None] == 1, view.nodes.gpus, 0)
    ),
    "GPUs of no amount per job and node": lambda view: Allocations(view.jobs.held[:, :0]),
    "has other GPUs in each of 6 rounds": lambda view: Allocations(
        np.where(
            (view.jobs.job_id[:, None] == 1) & (np.arange(len(view.nodes)) == view.now_s // 60 % len(view.nodes)), 1, 0
        )
    ),
}


@pytest.mark.parametrize("words", SCALINGS_THAT_BREAK_A_RULE)
def test_a_scaling_that_gives_what_is_not_there_or_moves_jobs_for_nothing_is_found(words):
    case = Case("scaling", Scaling("wrong", SCALINGS_THAT_BREAK_A_RULE[words], "Breaks it."), inputs_of("scaling", FEW))
    passed, detail = judged(case, "results")
    assert not passed
    assert words in detail


def queues(seen: View) -> FloatArray:
    return np.floor(seen.pending.ran_s * seen.pending.gpus / 3600.0)


def test_a_key_that_jumps_where_no_step_is_declared_is_found():
    seen = view(jobs(2))
    with pytest.raises(BrokenRule, match="not linear"):
        demand_declared_steps(Ordering("jumps", queues, "Jumps.", "while_running", (3600.0,)), seen)
    demand_declared_steps(find_ordering("tiresias"), seen)


def test_an_ordering_that_declares_nothing_is_asked_at_every_decision():
    assert Ordering("plain", LIARS["the time"], "Reads the time.").changes == "with_time"


def test_the_columns_of_a_view_cannot_be_written():
    seen = view(jobs(2))
    for column in (seen.pending.gpus, seen.forecast.runtime_s, seen.pending.user.codes, seen.nodes.gpus_used):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 7


@given(st.integers(0, 25), st.integers(0, 2**32 - 1))
@examples(50)
def test_no_more_gpus_of_a_random_view_run_jobs_than_its_nodes_have_in_use(count, seed):
    seen = random_view(np.random.default_rng(seed), count)
    assert len(seen.pending) == count
    assert seen.running.gpus.sum() <= seen.nodes.gpus_used[0] <= seen.nodes.gpus[0]


BAD = {
    "shape": ("return np.zeros(len(view.pending) + 1)", "results", "keys of shape"),
    "type": ("return view.pending.gpus", "results", "keys of type int64, not float64"),
    "nan": ("return np.full(len(view.pending), np.nan)", "results", "the key of a job with a forecast is nan"),
    "raises": ("return 1 / 0", "results", "it raises ZeroDivisionError: division by zero (strangers.py, line"),
    "typo": ("return view.pending.gpu * 1.0", "results", "did you mean gpus? (strangers.py, line"),
    "rows": ("return np.arange(len(view.pending)) * 1.0", "rows", "in other rows are decided otherwise"),
    "random": ("return np.random.random(len(view.pending))", "repeatable", "another result the second time"),
    "hash": ("return view.pending.gpus + hash('a') * 1.0", "processes", "another process gives another result"),
    "writes": (
        "view.pending.gpus.setflags(write=True); view.pending.gpus[:] = 7; return view.pending.gpus * 1.0",
        "input",
        "it writes into JobTable",
    ),
    "clock": ("return view.pending.gpus + 0.0 * time.time()", "pure", "it calls time.time"),
    "date": ("return view.pending.gpus + 1.0 * datetime.now().year", "pure", "it calls datetime.now"),
    "file": ("open('/dev/null').close(); return view.pending.gpus * 1.0", "pure", "it calls open '/dev/null'"),
    "socket": ("socket.socket().close(); return view.pending.gpus * 1.0", "pure", "it calls socket."),
    "process": ("subprocess.run(['true']); return view.pending.gpus * 1.0", "pure", "it calls subprocess.Popen"),
    "environment": ("os.environ.get('HOME'); return view.pending.gpus * 1.0", "pure", "it calls os._Environ."),
    "chance": ("random.random(); return view.pending.gpus * 1.0", "pure", "random numbers: Random.random"),
    "liar": ("return view.now_s - view.pending.first_submit_s", "changes", "it declares changes='never'"),
    "slow": (
        "until = time.process_time() + 1.1\n    while time.process_time() < until: pass\n"
        "    return view.pending.gpus * 1.0",
        "speed",
        "processor time",
    ),
    "dies": ("os._exit(1)", "results", "has died"),
}
"""Bodies of orderings that break a rule, the demand that finds it, and its words."""

MODULE = """
import os, random, socket, subprocess, time
from datetime import datetime
import numpy as np
from slurmsched.policies.contract import ordering
"""


@pytest.fixture(scope="module")
def strangers(tmp_path_factory) -> Path:
    """A directory with an installed package of orderings that break rules, one rule each, and one that breaks none."""
    directory, text = tmp_path_factory.mktemp("strangers"), MODULE
    for name, (body, demand, _) in {**BAD, "good": ("return view.pending.gpus * 1.0", "", "")}.items():
        declared = ", changes='never'" if demand == "changes" or name == "good" else ""
        text += f"@ordering('{name}'{declared})\ndef part_{name}(view):\n    'Breaks it.'\n    {body}\n"
    (directory / "strangers.py").write_text(text)
    metadata = directory / "strangers-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: strangers\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[slurmsched.policies]\nstrangers = strangers\n")
    return directory


@pytest.fixture(scope="module")
def judging(strangers) -> Iterator[Check]:
    """A check that finds the package."""
    with pytest.MonkeyPatch.context() as patch, closing(Check(count=5)) as check:
        patch.setenv("PYTHONPATH", str(strangers))
        yield check


@pytest.mark.parametrize("name", BAD)
def test_a_part_that_breaks_a_rule_is_found(judging, name):
    _, demand, words = BAD[name]
    passed, detail = judging.judge(Judge("ordering", name, demand, 5))
    assert not passed
    assert words in detail


def test_what_fails_several_demands_is_told_once(judging):
    failed = [finding.detail for finding in judging.findings("ordering", "raises") if not finding.passed]
    assert len(failed) > 5
    assert len([detail for detail in failed if "ZeroDivisionError" in detail]) == 1
    assert failed.count("the same") == len(failed) - 1


def test_the_parts_of_all_plug_ins_are_found(judging):
    found = judging.find(("ordering", "admission"), "")
    assert found.parts == tuple(("ordering", name) for name in [*BAD, "good"])
    assert found.troubles == ()


def test_a_part_that_hangs_is_ended_and_the_next_demand_gets_a_new_process(strangers, monkeypatch):
    (strangers / "hangs.py").write_text(
        f"{MODULE}@ordering('hangs')\ndef hangs(view):\n    'Never ends.'\n    time.sleep(600)\n"
    )
    (strangers / "strangers-1.0.dist-info/entry_points.txt").write_text(
        "[slurmsched.policies]\nstrangers = strangers\nhangs = hangs\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(strangers))
    with closing(Check(count=5)) as check:
        assert check.find(("ordering",), "hangs").parts == (("ordering", "hangs"),)
        check.limit_s, check.first_s = 1.0, 0.0
        assert check.judge(Judge("ordering", "hangs", "results", 5)) == (False, "a judgement took longer than 1 s")
        check.limit_s = 300.0
        assert check.judge(Judge("ordering", "good", "results", 5))[0]


def test_whatever_is_demanded_first_has_the_time_that_a_process_takes_to_start(strangers, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(strangers))
    with closing(Check(count=5, limit_s=0.001, first_s=600.0)) as check:
        passed, detail = check.judge(Judge("ordering", "hash", "processes", 5))
        assert not passed
        assert "another process gives another result" in detail


def test_an_import_that_hangs_is_ended(tmp_path, monkeypatch):
    (tmp_path / "stuck.py").write_text("import time\ntime.sleep(600)\n")
    metadata = tmp_path / "stuck-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: stuck\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[slurmsched.policies]\nstuck = stuck\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    took = pytest.raises(ConfigError, match="loading the plug-ins: a judgement took longer than 3 s")
    with closing(Check(count=5, import_s=3.0)) as check, took:
        check.find(("ordering",), "")


def test_the_command_prints_what_failed_and_its_exit_status_says_so(strangers, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(strangers))
    monkeypatch.setenv("SLURMSCHED_CONFIG", "")
    words = ["policy", "check", "--views", "5"]
    done = CliRunner().invoke(main, [*words, "raises", "--json"])
    assert done.exit_code == 1, done.output
    assert {"hook", "part", "demand", "detail"} == set(json.loads(done.stdout)["failed"][0])
    unknown = CliRunner().invoke(main, [*words, "absent"])
    assert unknown.exit_code == 2
    assert "'absent' is not known" in unknown.stderr
