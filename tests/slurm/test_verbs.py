"""The reach of a power: every line that can ever go to scontrol, and nobody else writes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import slurmsched
from slurmsched.cluster.actions import (
    ACTIONS,
    Hold,
    MovePartition,
    Rank,
    Release,
    Requeue,
    RequireNodes,
    Resume,
    Suspend,
)
from slurmsched.slurm.verbs import lines

PACKAGE = Path(slurmsched.__file__).parent
ALLOWED = re.compile(
    r"update jobid=[1-9]\d* (sitefactor=\d+|priority=\d+|starttime=(uts\d+|now)"
    r"|partition=[\w.,+\[\]-]*|reqnodelist=[\w.,+\[\]-]*)|(release|requeue|suspend|resume) [1-9]\d*",
    re.ASCII,
)

job_ids = st.integers(1, 2**31)
actions = st.one_of(
    st.builds(Rank, job_ids, st.integers(0, 2**31)),
    st.builds(Hold, job_ids, st.floats(0, 4e9)),
    st.builds(MovePartition, job_ids, st.text(max_size=20)),
    st.builds(RequireNodes, job_ids, st.text(max_size=20)),
    *(st.builds(kind, job_ids) for kind in (Release, Requeue, Suspend, Resume)),
)


@given(actions, st.booleans())
def test_every_line_is_one_of_the_few_we_may_send(action, multifactor):
    try:
        written = lines(action, multifactor=multifactor)
    except ValueError:
        assert isinstance(action, MovePartition | RequireNodes), "only names can be what no command may hold"
        return
    assert written
    for line in written:
        assert ALLOWED.fullmatch(line), line
        assert str(action.job_id) in line


@pytest.mark.parametrize("kind", ACTIONS.values(), ids=lambda kind: kind.__name__)
def test_every_kind_of_action_has_its_words(kind):
    arguments = {Rank: (5,), Hold: (100.7,), MovePartition: ("gpu,fast",), RequireNodes: ("n[1-4]",)}
    assert len(lines(kind(3, *arguments.get(kind, ())))) == 1


@pytest.mark.parametrize("text", ["a b", "a\nshutdown", "n1;n2", "gpu priority=9", "$(id)", "'x'", "é", "n1\n"])
def test_a_name_that_could_be_a_second_command_is_refused(text):
    for action in (MovePartition(1, text), RequireNodes(1, text)):
        with pytest.raises(ValueError, match="is no list of partition or node names"):
            lines(action)


@pytest.mark.parametrize("job_id", [0, -1, "7 priority=9", 1.5, None])
def test_a_job_id_is_a_positive_number(job_id):
    with pytest.raises(ValueError, match="a job id is a positive number"):
        lines(Rank(job_id, 1))


def test_priorities_we_fix_lie_above_all_that_basic_gives_in_the_order_of_their_points():
    fixed = [int(lines(Rank(1, points), multifactor=False)[0].rpartition("=")[2]) for points in (1, 5, 2**31)]
    assert fixed == sorted(fixed)
    assert fixed[0] > 0xFFFF0000
    assert fixed[-1] < 0xFFFFFFFE
    assert lines(Rank(1, 0), multifactor=False) == ("release 1",)


WRITING = re.compile(
    r"\b(scancel|sitefactor|reqnodelist|starttime=|requeuehold|uhold)\b"
    r"|[\"']scontrol[\"'](?!\s*,\s*[\"'](show|--version|ping)[\"'])"
)
#: Where each of those words may stand: the allow-list, the one place that sends it, and the lab's own chores.
MAY_WRITE = {"slurm/verbs.py", "slurm/command.py"}


def test_no_other_module_writes_to_slurm():
    found = {
        f"{path.relative_to(PACKAGE)}:{number}: {line.strip()}"
        for path in PACKAGE.rglob("*.py")
        if str(path.relative_to(PACKAGE)) not in MAY_WRITE and path.parent.name not in {"lab", "demo"}
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if WRITING.search(line) and "scontrol release" not in line
    }
    assert found == set()


def test_the_one_place_that_sends_takes_its_lines_from_the_allow_list():
    source = (PACKAGE / "slurm" / "command.py").read_text()
    assert source.count('run(["scontrol"]') == 1
    assert "for line in lines(action, multifactor=multifactor)" in source
    assert "scancel" not in source
