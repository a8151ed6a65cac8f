"""The reach of a power: every line that can ever go to scontrol, and nobody else writes."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import slurmsched
from slurmsched.cluster.actions import (
    ACTIONS,
    AskToStop,
    Avoid,
    End,
    Hold,
    Move,
    MoveNodes,
    MovePartition,
    NodeChange,
    Preempt,
    Rank,
    Release,
    Requeue,
    Resize,
    RestoreSize,
    Resume,
    Rightsize,
    SetAdminComment,
    Share,
    Start,
    StartShared,
    Steer,
    Suspend,
    Unmark,
    Unshare,
    Unsteer,
)
from slurmsched.slurm.write.verbs import Request, call, lines, ours_to_tell, signals

PACKAGE = Path(slurmsched.__file__).parent
ALLOWED = re.compile(
    r"update jobid=[1-9]\d* (sitefactor=\d+|priority=\d+|starttime=(uts\d+|now)"
    r"|admincomment=slurmsched:[\w.,:;=+@%/-]*"
    r"|partition=[\w.,+\[\]-]*|(req|exc)nodelist=[\w.,+\[\]-]*"
    r"|numcpus=\d+ cpuspertask=\d+ mincpusnode=\d+ minmemory(cpu|node)=\d+)"
    r"|(release|requeue incomplete|suspend|resume) [1-9]\d*",
    re.ASCII,
)

job_ids = st.integers(1, 2**31)
REQUEST = "cpus=4,task=2,node=2,mem=1500Mc"
actions = st.one_of(
    st.builds(Rank, job_ids, st.integers(0, 2**31)),
    st.builds(Hold, job_ids, st.floats(0, 4e9)),
    st.builds(MovePartition, job_ids, st.text(max_size=20)),
    st.builds(Steer, job_ids, st.text(max_size=5), st.text(max_size=20)),
    st.builds(Rightsize, job_ids, *[st.text(max_size=20) | st.just(REQUEST)] * 3),
    st.builds(RestoreSize, job_ids, *[st.text(max_size=20) | st.just(REQUEST)] * 2),
    st.builds(SetAdminComment, job_ids, st.text(max_size=20).map("slurmsched:".__add__)),
    *(st.builds(kind, job_ids) for kind in (Release, Requeue, Suspend, Resume, Unsteer)),
)


@given(actions, st.booleans())
def test_every_line_is_one_of_the_few_we_may_send(action, multifactor):
    try:
        written = lines(action, multifactor=multifactor)
    except ValueError:
        named = MovePartition | SetAdminComment | Steer | Rightsize | RestoreSize
        assert isinstance(action, named), "only names can be what no command may hold"
        return
    assert written
    for line in written:
        assert ALLOWED.fullmatch(line), line
        assert str(action.job_id) in line


@pytest.mark.parametrize(
    "action",
    [Start(3, "n1:4"), Preempt(3), Move(3, "n1:4"), End(3), Avoid(3, "steer", "1.2", "-", "BadConstraints")],
    ids=repr,
)
def test_nothing_starts_stops_or_ends_a_job_of_a_real_slurm_in_its_place(action):
    for multifactor in (True, False):
        with pytest.raises(ValueError, match="is no write to a real Slurm"):
            lines(action, multifactor=multifactor)


OF_SLURM = [kind for kind in ACTIONS.values() if kind not in (MoveNodes, Start, Preempt, Move, End, Avoid)]


@pytest.mark.parametrize("kind", OF_SLURM, ids=lambda kind: kind.__name__)
def test_every_kind_of_action_has_its_words(kind):
    arguments = {Rank: (5,), Hold: (100.7,), MovePartition: ("gpu,fast",)}
    arguments |= {Steer: ("a100", "n[1-4]"), Resize: (4, 2, 2)}
    arguments |= {Rightsize: (REQUEST,) * 3, RestoreSize: (REQUEST,) * 2}
    arguments |= {AskToStop: ("URG",), SetAdminComment: ("slurmsched:met",)}
    arguments |= {Share: ("gpu", "shared", "n4", "0+1", "note", 100.0)}
    arguments |= {Unshare: ("gpu", 2, "note", 100.0)}
    arguments |= {StartShared: ("0+1",), Unmark: ("note",)}
    request = Request(per_node="gres:gpu:2" if kind is Resize else "gres:slot:i0:1,gres:slot:i1:1")
    assert len(lines(kind(3, *arguments.get(kind, ())), request=request)) == (kind is not AskToStop)


@given(st.lists(job_ids, min_size=1, max_size=3), st.sampled_from(["URG", "USR1", "USR2"]))
def test_asking_to_stop_is_a_signal_to_what_runs_and_never_a_cancellation(jobs, signal):
    assert lines(AskToStop(jobs[0], signal)) == ()
    for argv in signals(signal, jobs):
        assert argv[:3] == ("scancel", "--state=RUNNING", f"--signal={signal}")
        assert set(argv[3:]) <= {"--full", *map(str, jobs)}


@pytest.mark.parametrize("signal", ["KILL", "TERM", "9", "", "URG --signal=KILL", "urg"])
def test_no_signal_that_ends_a_job_can_be_sent(signal):
    with pytest.raises(ValueError, match="signals are URG, USR1, USR2"):
        signals(signal, [7])


def test_an_admin_comment_is_written_only_where_it_is_empty_or_ours():
    assert all(ours_to_tell(shown) for shown in ("", "(null)", "slurmsched:guaranteed"))
    assert not any(ours_to_tell(shown) for shown in ("see ticket 12", " slurmsched:x", "ticket\nslurmsched:x"))
    for text in ("see ticket 12", "slurmsched:a b", "slurmsched:a\nshutdown"):
        with pytest.raises(ValueError, match=r"ours|blanks"):
            lines(SetAdminComment(1, text))
    assert lines(SetAdminComment(1, "")) == ("update jobid=1 admincomment=",), "nothing of ours is left"


@pytest.mark.parametrize("text", ["a b", "a\nshutdown", "n1;n2", "gpu priority=9", "$(id)", "'x'", "é", "n1\n"])
def test_a_name_that_could_be_a_second_command_is_refused(text):
    for action in (MovePartition(1, text), Steer(1, "a100", text)):
        with pytest.raises(ValueError, match="is no list of partition or node names"):
            lines(action)


def test_cpus_and_memory_are_set_in_one_line_and_so_are_those_of_the_owner():
    change = Rightsize(7, REQUEST, REQUEST, "cpus=2,task=1,node=1,mem=3000Mn")
    assert lines(change) == ("update jobid=7 numcpus=2 cpuspertask=1 mincpusnode=1 minmemorynode=3000",)
    back = ("update jobid=7 numcpus=4 cpuspertask=2 mincpusnode=2 minmemorycpu=1500",)
    assert lines(RestoreSize(7, change.after, REQUEST)) == back
    assert call(change) is None
    for text in ("", "cpus=1,task=1,node=6,mem=3000Mn", "cpus=2,task=2,node=2,mem=0Mn"):
        with pytest.raises(ValueError, match="no CPUs and memory"):
            lines(replace(change, after=text))


@pytest.mark.parametrize(
    ("request_", "line"),
    [
        (Request(per_node="gres:gpu:2"), "trespernode=gres:gpu:4"),
        (Request(per_node="gres/gpu:2"), "trespernode=gres:gpu:4"),
        (Request(per_job="gres:gpu:2"), "tresperjob=gres:gpu:4"),
        (Request(per_node="gres:gpu:v100:2"), "trespernode=gres:gpu:v100:4"),
        (Request(per_job="gres/gpu:v100=2"), "tresperjob=gres:gpu:v100:4"),
        (Request(per_node="gpu:v100:2"), "trespernode=gres:gpu:v100:4"),
    ],
)
def test_another_number_of_gpus_is_one_line_that_keeps_the_type(request_, line):
    assert lines(Resize(7, 4, 2, 2), request=request_) == (f"update jobid=7 {line}",)


@pytest.mark.parametrize(
    "request_",
    [
        None,
        Request(),
        Request(per_node="gres:gpu:3"),
        Request(per_node="gres:gpu:1", per_job="gres:gpu:1"),
        Request(per_node="gres:gpu:a100:1,gres:gpu:v100:1"),
        Request(per_node="gres:gpu:2,gres:shard:1"),
        Request(per_node="gres:slot:i0:1,gres:slot:i1:1"),
        Request(per_task="gres:gpu:2"),
        Request(per_socket="gres:gpu:2"),
    ],
    ids=str,
)
def test_a_request_that_is_not_the_one_that_was_seen_is_not_changed(request_):
    with pytest.raises(ValueError, match="it asks for"):
        lines(Resize(7, 4, 2, 2), request=request_)


def test_no_job_is_left_without_gpus():
    for gpus in (0, -1):
        with pytest.raises(ValueError, match="at least one GPU"):
            lines(Resize(7, gpus, 2, 2), request=Request(per_node="gres:gpu:2"))


SIZE = "cpus=8,task=2,node=2,mem=2000Mc"


@pytest.mark.parametrize(
    ("change", "request_", "line"),
    [
        (
            Resize(7, 4, 8, 8, 4),
            Request(per_node="gres:gpu:v100:4", nodes=2, most_nodes=2, node_request=SIZE),
            "numnodes=1-1 numtasks=2 numcpus=4 minmemorycpu=2000 trespernode=gres:gpu:v100:4",
        ),
        (
            Resize(7, 12, 8, 8, 4),
            Request(per_job="gres:gpu:8", nodes=2, most_nodes=2, node_request="cpus=2,task=1,node=1,mem=500Mn"),
            "numnodes=3-3 numtasks=3 numcpus=3 minmemorynode=500 tresperjob=gres:gpu:12",
        ),
        (  # of which Slurm took a change from one node to two in part
            Resize(7, 4, 4, 4, 4, taken=2),
            Request(per_node="gres:gpu:4", nodes=1, most_nodes=2, node_request=SIZE),
            "numnodes=1-1 numtasks=2 numcpus=4 minmemorycpu=2000 trespernode=gres:gpu:4",
        ),
        (
            Resize(7, 4, 4, 4, 4, taken=2),
            Request(per_job="gres:gpu:8", nodes=1, most_nodes=2, node_request=SIZE),
            "numnodes=1-1 numtasks=2 numcpus=4 minmemorycpu=2000 tresperjob=gres:gpu:4",
        ),
        (
            Resize(7, 8, 8, 8, 4, taken=1),
            Request(per_node="gres:gpu:4", nodes=2, most_nodes=1, node_request="cpus=4,task=2,node=2,mem=500Mn"),
            "numnodes=2-2 numtasks=4 numcpus=8 minmemorynode=500 trespernode=gres:gpu:4",
        ),
    ],
    ids=str,
)
def test_nodes_tasks_cpus_and_memory_change_in_one_line(change, request_, line):
    assert lines(change, request=request_) == (f"update jobid=7 {line}",)


@pytest.mark.parametrize(
    "request_",
    [
        Request(per_node="gres:gpu:2", nodes=2, most_nodes=2, node_request=SIZE),
        Request(per_node="gres:gpu:4", nodes=1, most_nodes=2, node_request=SIZE),
        Request(per_node="gres:gpu:4", nodes=3, most_nodes=3, node_request=SIZE),
        Request(per_node="gres:gpu:4", nodes=2, most_nodes=2),
        Request(per_node="gres:gpu:4", nodes=2, most_nodes=2, node_request="cpus=3,task=1,node=1,mem=500Mn"),
    ],
    ids=str,
)
def test_nodes_stay_where_the_request_is_another_one_or_its_tasks_are_not_even(request_):
    with pytest.raises(ValueError, match=r"asks for|do not change"):
        lines(Resize(7, 4, 8, 8, 4), request=request_)


def test_gpus_stay_where_slurm_may_give_a_job_more_nodes_with_as_many():
    with pytest.raises(ValueError, match="it may get 2 nodes from Slurm"):
        lines(Resize(7, 4, 2, 2), request=Request(per_node="gres:gpu:2", nodes=1, most_nodes=2))


def test_a_job_is_never_steered_by_the_line_that_lets_it_go():
    assert lines(Unsteer(7)) == ("update jobid=7 excnodelist=",)
    with pytest.raises(ValueError, match="excludes at least one node"):
        lines(Steer(7, "a100", ""))


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


def test_a_requeue_goes_to_the_one_program_that_can_pass_over_jobs_that_have_ended():
    assert lines(Requeue(7)) == ("requeue incomplete 7",)
    assert call(Requeue(7)) is None


WRITING = re.compile(
    r"\b(scancel|sitefactor|reqnodelist|starttime=|requeuehold|uhold)\b"
    r"|[\"']scontrol[\"'](?!\s*,\s*[\"'](show|--version|ping)[\"'])"
)
#: What sentences tell their reader to type, in quotes.
TOLD = re.compile(r"'(scontrol (release|update)|scancel) ")
#: Where each of those words may stand: the allow-list, the one place that sends it, what a job's own script runs as its
#: owner, and the lab's own chores.
READER = "slurm/adapters/command.py"
MAY_WRITE = {"slurm/write/verbs.py", "slurm/adapters/command_writer.py", READER, "job.py"}


def test_no_other_module_writes_to_slurm():
    found = {
        f"{path.relative_to(PACKAGE)}:{number}: {line.strip()}"
        for path in PACKAGE.rglob("*.py")
        if str(path.relative_to(PACKAGE)) not in MAY_WRITE and path.parent.name not in {"lab", "demo"}
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if WRITING.search(line) and not TOLD.search(line)
    }
    assert found == set()


def test_the_one_place_that_sends_takes_its_lines_from_the_allow_list():
    adapters = PACKAGE / "slurm" / "adapters"
    source, reader = (adapters / "command_writer.py").read_text(), (PACKAGE / READER).read_text()
    assert reader.count("send(") == 1
    assert 'send(self.console, [f"show job {job_id}" for job_id in job_ids])' in reader
    asked = re.findall(r'\["scontrol", ([^\]]*)\]', reader)
    assert asked
    assert [words for words in asked if '"show"' not in words and words != '"--version"'] == []
    assert "scancel" not in reader
    assert source.count('run(["scontrol"]') == 1
    assert "left[at] = list(lines_of(action))" in source
    assert "return lines(action, multifactor=multifactor, request=request)" in source
    assert source.count("self._written(") == 2
    assert source.count("send(self.console, ") == 2
    assert "script = lines(action)" in source
    assert "(slots_line(share, _request_of(share, requests)),)" in source
    assert "scancel" not in source


def moved(partition: str, nodes: str) -> MoveNodes:
    """A move that gives *partition* the nodes, and takes others from it."""
    return MoveNodes((NodeChange(partition, "m[8-9]", ",".join(filter(None, (nodes, "m[8-9]"))), nodes),))


@given(st.from_regex(r"[\w ,=]{0,12}", fullmatch=True), st.from_regex(r"[a-z]{0,3}[0-9]{0,2}[ =;]?", fullmatch=True))
def test_the_one_line_about_partitions_names_one_partition_and_some_nodes(partition, nodes):
    try:
        (line,) = lines(moved(partition, nodes))
    except ValueError:
        return
    assert re.fullmatch(r"update partitionname=[\w.+\[\]-]+ nodes=[\w.,+\[\]-]+", line, re.ASCII)


def test_a_partition_is_given_its_nodes_in_words_and_never_none():
    assert lines(moved("gpu", "m7,n[1-3]")) == ("update partitionname=gpu nodes=m7,n[1-3]",)
    for partition, nodes in (("gpu", ""), ("", "n1"), ("gpu,fast", "n1"), ("gpu", "n1 state=down"), ("gpu", "n1\nx")):
        with pytest.raises(ValueError, match=r"at least one node|is no list of|no host list"):
            lines(moved(partition, nodes))


def test_a_move_of_nodes_first_adds_and_then_takes_away_and_is_nothing_for_pyslurm():
    own, lent = {"gpu": ("n1", "n2"), "profile": ("n3",)}, {"gpu": ("n2",), "profile": ("n1", "n3")}
    move = MoveNodes.between(own, own, lent)
    assert lines(move) == (
        "update partitionname=profile nodes=n[1,3]",
        "update partitionname=gpu nodes=n2",
    )
    assert call(move) is None
