"""Finding and registering orderings, those of other people too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from decide.views import NOW_S, jobs, view

from slurmsched.errors import ConfigError, MissingExtra
from slurmsched.policies.contract import ORDERINGS, Ordering, find_ordering, ordering
from slurmsched.policies.ordering.static import FAR_S

ROOT = Path(__file__).parent.parent.parent


def test_the_shortest_and_the_smallest_come_first():
    seen = view(jobs(3, gpus=[8, 0, 1]), [60.0, 300.0, 400.0])
    assert find_ordering("sjf")(seen).tolist() == [60, 300, 400]
    assert find_ordering("qssf")(seen).tolist() == [480, 300, 400]
    assert np.ptp(find_ordering("fifo")(seen)) == 0


def test_the_earliest_deadline_comes_first_and_those_without_one_by_submission():
    seen = view(jobs(4, deadline_s=[np.inf, 2e9, 1.9e9, np.inf], first_submit_s=[50.0, 60.0, 70.0, 40.0]))
    assert np.argsort(find_ordering("edf")(seen)).tolist() == [2, 1, 3, 0]


def test_jobs_without_a_deadline_are_in_order_of_remaining_time_where_edf_is_told_so():
    seen = view(jobs(3, deadline_s=[np.inf, np.inf, 2e9], ran_s=np.array([0.0, 700.0, 0.0])), [300.0, 900.0, 1e6])
    found = find_ordering("edf rest=remaining")
    assert np.argsort(found(seen)).tolist() == [2, 1, 0]
    assert (found.changes, find_ordering("edf").changes) == ("while_running", "never")
    with pytest.raises(ConfigError, match="rest=submission or rest=remaining"):
        find_ordering("edf rest=length")


def test_edf_drops_jobs_that_can_make_no_step_of_their_deadline_where_it_is_told_so():
    submitted_s = NOW_S - 900.0
    soft = {
        "soft": [False, False, True, False],
        "deadline_since": ["epoch"] * 3 + [""],
        "first_submit_s": np.full(4, submitted_s),
    }
    ahead_s = np.array([90.0, 500.0, 90.0, np.inf])
    seen = view(jobs(4, deadline_s=NOW_S + ahead_s, **soft), [100.0, 100.0, 100.0, 50.0])
    assert np.argsort(find_ordering("edf rest=remaining")(seen), kind="stable").tolist() == [0, 2, 1, 3]
    found = find_ordering("edf rest=remaining late=rest")
    assert np.argsort(found(seen)).tolist() == [2, 1, 3, 0]  # the soft one makes its step at 1.1 times its deadline
    assert found.changes == "with_time"


def test_laxity_runs_jobs_about_to_miss_their_deadline_and_then_the_shortest():
    ahead_s = np.array([4_000.0, 90.0, 1_500.0, 900.0, np.inf])
    seen = view(jobs(5, deadline_s=NOW_S + ahead_s), [100.0, 200.0, 1_000.0, 800.0, 50.0])
    assert np.argsort(find_ordering("laxity within_s=1200")(seen)).tolist() == [3, 2, 4, 0, 1]
    assert np.argsort(find_ordering("laxity within_s=0")(seen)).tolist() == [4, 0, 1, 3, 2]
    with pytest.raises(ConfigError, match="within_s=SECONDS"):
        find_ordering("laxity within_s=-1")


def test_genie_runs_jobs_that_can_meet_their_deadline_then_those_that_cannot_then_the_others():
    ahead_s = np.array([np.inf, 500.0, 90.0, 2000.0, np.inf])
    seen = view(
        jobs(
            5,
            deadline_s=NOW_S + ahead_s,
            first_submit_s=[50.0, 60.0, 70.0, 80.0, 40.0],
            ran_s=np.array([0.0, 0.0, 0.0, 300.0, 0.0]),
        ),
        [1.0, 100.0, 100.0, 2100.0, 1e6],
    )
    assert np.argsort(find_ordering("genie")(seen)).tolist() == [3, 1, 2, 4, 0]


def test_a_job_without_a_forecast_has_all_the_time_to_its_deadline_under_genie():
    seen = view(jobs(2, deadline_s=[NOW_S + 50, NOW_S + 100]), [np.nan, 80.0])
    assert np.argsort(find_ordering("genie")(seen)).tolist() == [1, 0]


def test_a_job_that_waited_eight_times_as_long_as_it_ran_is_taken_up():
    ran_s = np.array([0.0, 7200.0, 7200.0, 7200.0])
    waited_s = np.array([0.0, 1.0, 8 * 7200.0 - 1, 8 * 7200.0])
    seen = view(jobs(4, ran_s=ran_s, first_submit_s=NOW_S - ran_s - waited_s))
    assert (find_ordering("tiresias-promoting")(seen) < FAR_S).tolist() == [True, False, False, True]


def test_an_unknown_name_is_answered_with_those_there_are():
    known = (
        "afs-l, chronus, edf, fair, fifo, gandiva, gavel, genie, graphene, hypersched, las, laxity, lucid, mlfs-h, "
        "mlfs-rl, qssf, sjf, slaq, srsf, srtf, themis, tiresias, tiresias-promoting, unchanged, wfq"
    )
    with pytest.raises(ConfigError, match=f"policy.ordering = 'sfj' is not known; there are: {known}"):
        find_ordering("sfj")


def test_an_ordering_that_needs_a_module_is_refused_where_it_is_not_installed():
    known = ("needy", lambda seen: seen.pending.gpus * 1.0, "Needs a solver.")
    assert Ordering(*known, needs="numpy", extra="sim").installed().name == "needy"
    with pytest.raises(MissingExtra, match=r"the ordering needy needs no_such_solver, .*'\.\[deadlines\]'"):
        Ordering(*known, needs="no_such_solver", extra="deadlines").installed()
    assert (find_ordering("gavel").needs, find_ordering("gavel").extra) == ("highspy", "deadlines")


def test_a_name_can_be_taken_once():
    with pytest.raises(ValueError, match="'sjf' is registered twice"):
        ordering("sjf")(lambda seen: seen.forecast.runtime_s)
    assert ORDERINGS["sjf"].summary.startswith("Shortest")


def install(directory: Path, module: str, source: str) -> None:
    """A package of somebody else, as pip would leave it."""
    (directory / f"{module}.py").write_text(source)
    metadata = directory / f"{module}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[slurmsched.policies]\n{module} = {module}\n")


def run(directory: Path, program: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(directory), str(ROOT), str(ROOT / "tests")])
    return subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_a_plug_in_whose_import_hangs_or_ends_the_process_is_left_out_and_named(tmp_path):
    install(tmp_path, "hangs", "import time\nwhile True:\n    time.sleep(60)\n")
    install(tmp_path, "leaves", "import os\nos._exit(0)\n")
    done = run(
        tmp_path,
        "from slurmsched.errors import ConfigError\n"
        "from slurmsched.policies.contract import find_ordering\n"
        "from slurmsched.policies.registry import load_plugins\n"
        "print(len(load_plugins(limit_s=4.0)))\n"
        "try:\n"
        "    find_ordering('hangs')\n"
        "except ConfigError as error:\n"
        "    print(error)\n",
    )
    count, sentence = done.stdout.splitlines()
    assert count == "2", "the process goes on"
    assert "cannot load plug-in 'hangs' (hangs): a trial import took longer than 4 s" in sentence
    assert "cannot load plug-in 'leaves' (leaves): " in sentence


def example(number: int = 1) -> str:
    """Return the first Python example of the page, or another one."""
    page = (ROOT / "docs" / "policies.md").read_text()
    return page.split("```python\n")[number].partition("```")[0]


def test_the_example_of_the_page_works_as_a_plug_in(tmp_path):
    install(tmp_path, "fewest", example())
    done = run(
        tmp_path,
        "import json\n"
        "from decide.views import jobs, view\n"
        "from slurmsched.powers import decide\n"
        "from slurmsched.decide.rules import Rules\n"
        "from slurmsched.policies.contract import find_ordering\n"
        "seen = view(jobs(3, user=['a', 'a', 'b']), [60.0, 30.0, 900.0])\n"
        "found = find_ordering('fewest')\n"
        "rank = decide(seen, found, Rules(scope='queue')).jobs.rank.tolist()\n"
        "print(json.dumps([found.summary, found.changes, rank]))\n",
    )
    assert done.returncode == 0, done.stderr
    summary, changes, rank = json.loads(done.stdout)
    assert summary.startswith("Jobs of the user with the fewest")
    assert changes == "with_time"
    assert rank == [2, 1, 0]


def test_the_selection_of_the_page_is_found_in_an_installed_plug_in(tmp_path):
    install(tmp_path, "one_at_a_time", example(2))
    chosen = "from slurmsched.simulator.setup import Setup\nprint(Setup.of('fifo', 'one-at-a-time').selection)\n"
    done = run(tmp_path, chosen)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "one-at-a-time\n"


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("import nothing_of_that_name", "nothing_of_that_name"),
        (
            "from slurmsched.policies.contract import ordering\n@ordering('sjf')\ndef mine(view): ...",
            "registered twice",
        ),
    ],
)
def test_a_plug_in_that_does_not_load_is_a_mistake_in_the_settings(tmp_path, source, complaint):
    install(tmp_path, "broken", source)
    done = run(
        tmp_path,
        "from slurmsched.errors import ConfigError\n"
        "from slurmsched.policies.contract import find_ordering\n"
        "try:\n    find_ordering('absent')\nexcept ConfigError as error:\n    print(error)\n",
    )
    assert "cannot load plug-in 'broken' (broken)" in done.stdout, done.stderr
    assert complaint in done.stdout


def test_a_plug_in_that_does_not_load_prevents_no_other(tmp_path):
    install(tmp_path, "broken", "raise RuntimeError('not today')")
    install(tmp_path, "fewest", example())
    found = "from slurmsched.policies.contract import find_ordering\nprint(find_ordering('fewest').built_in)\n"
    done = run(tmp_path, found)
    assert done.stdout == "False\n", done.stderr
