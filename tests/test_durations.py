"""The table of what the tests cost, what failed, and the files that the fast run leaves out."""

from __future__ import annotations

from pathlib import Path

import durations
import pytest

XML = """<testsuites><testsuite name="pytest">
<testcase classname="tests.cli.test_eta" name="test_a[x|y]" time="12.5"/>
<testcase classname="tests.cli.test_eta" name="test_b" time="90"><properties>
<property name="processor_s" value="0.50" /></properties><skipped/></testcase>
<testcase classname="tests.test_docs" name="test_c" time="5"><failure message="m">assert 1 == 2</failure></testcase>
</testsuite></testsuites>"""


@pytest.fixture
def result(tmp_path: Path) -> Path:
    """The result of a run as pytest writes it."""
    (tmp_path / "others.xml").write_text(XML)
    return tmp_path / "others.xml"


def test_the_slowest_tests_and_files_are_in_a_table(result):
    text = durations.table(durations.durations([result]))
    assert text.splitlines()[0] == "3 tests took 18 s of processors. The dearest tests and files, in seconds:"
    assert "| `test_a[x y]` | 12 | `tests/cli/test_eta.py` | 13 |" in text


def test_what_failed_is_told_with_its_end(result):
    assert durations.failures([result]) == ["FAILED tests/test_docs.py::test_c\nassert 1 == 2\n"]


def test_the_fast_run_leaves_out_as_few_files_as_it_must(result):
    sums = durations.by_file(durations.durations([result]))
    assert durations.left_out(sums, 6.0) == ["tests/cli/test_eta.py"]
    assert durations.left_out(sums, 18.0) == []


def test_without_results_it_says_what_to_run():
    with pytest.raises(ValueError, match="run make test"):
        durations.durations([])


def test_the_files_left_out_exist_and_the_page_has_a_place_for_the_table():
    root = durations.ROOT
    assert [file for file in durations.SLOW.read_text().split() if not (root / file).exists()] == []
    assert len(durations._TABLE.findall(durations.PAGE.read_text())) == 1
