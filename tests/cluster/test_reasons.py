"""What Slurm's reasons for pending jobs mean."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from decide.views import jobs
from hypothesis import given
from hypothesis import strategies as st

from slurmsched.cluster.reason_table import WORDS
from slurmsched.cluster.reasons import Ends, ReasonKind, Whose, reason_of, where_kind

LIMIT_WORD = re.compile(rb"\0((?:QOS|Assoc)(?:Grp|Max|Min)[A-Z]\w+|Max[A-Z]\w+Per(?:Account|User))(?=\0)")


def words_of_this_release() -> set[str]:
    """The words of limits in the library that squeue prints them from."""
    squeue = shutil.which("squeue")
    if squeue is None:
        pytest.skip("needs Slurm's squeue")
    libraries = subprocess.run(["ldd", squeue], capture_output=True, text=True, check=True).stdout
    path = re.search(r"=> (\S*libslurmfull\S*)", libraries)
    if path is None:
        pytest.skip("squeue is not linked to libslurmfull")
    return {word.decode() for word in LIMIT_WORD.findall(Path(path[1]).read_bytes())}


def test_every_limit_that_this_release_can_print_is_a_limit():
    words = words_of_this_release()
    assert len(words) > 120
    assert [word for word in words if reason_of(word).limit is None] == []


@pytest.mark.parametrize(
    ("word", "whose", "resource", "of", "ends"),
    [
        ("QOSMaxGRESPerUser", Whose.QOS, "gres", "user", Ends.WITH_JOBS),
        ("QOSMaxJobsPerUserLimit", Whose.QOS, "jobs", "user", Ends.WITH_JOBS),
        ("QOSGrpCpuLimit", Whose.QOS, "cpu", "group", Ends.WITH_JOBS),
        ("QOSGrpCPURunMinutesLimit", Whose.QOS, "cpu", "group", Ends.WITH_JOBS),
        ("QOSMaxWallDurationPerJobLimit", Whose.QOS, "wall", "job", Ends.NEVER),
        ("QOSMinGRES", Whose.QOS, "gres", "job", Ends.NEVER),
        ("QOSMinCpuNotSatisfied", Whose.QOS, "cpu", "job", Ends.NEVER),
        ("MaxGRESPerAccount", Whose.QOS, "gres", "account", Ends.WITH_JOBS),
        ("MaxCpuRunMinsPerUser", Whose.QOS, "cpu", "user", Ends.WITH_JOBS),
        ("AssocGrpGRES", Whose.ACCOUNT, "gres", "group", Ends.WITH_JOBS),
        ("AssocGrpCPUMinutesLimit", Whose.ACCOUNT, "cpu", "group", Ends.WITH_TIME),
        ("AssocGrpWallLimit", Whose.ACCOUNT, "wall", "group", Ends.WITH_TIME),
        ("AssocMaxJobsLimit", Whose.ACCOUNT, "jobs", "user", Ends.WITH_JOBS),
        ("AssocMaxMemPerNode", Whose.ACCOUNT, "mem", "node", Ends.NEVER),
        ("AssocMaxSubmitJobLimit", Whose.ACCOUNT, "submit", "user", Ends.WITH_JOBS),
        ("Licenses", Whose.LICENCES, "license", "group", Ends.WITH_JOBS),
        ("JobArrayTaskLimit", Whose.ARRAY, "jobs", "array", Ends.WITH_JOBS),
    ],
)
def test_the_word_of_a_limit_tells_whose_it_is_on_what_and_how_it_ends(word, whose, resource, of, ends):
    reason = reason_of(word)
    assert reason.kind is ReasonKind.LIMIT
    assert reason.limit is not None
    assert (reason.limit.whose, reason.limit.resource, reason.limit.of, reason.limit.ends) == (
        whose,
        resource,
        of,
        ends,
    )


def test_the_limits_of_a_partition_are_no_limits_of_an_account_and_waiting_does_not_end_them():
    for word in ("PartitionTimeLimit", "PartitionNodeLimit", "MaxMemPerLimit"):
        reason = reason_of(word)
        assert reason.kind is ReasonKind.CANNOT_RUN
        assert reason.limit is not None
        assert (reason.limit.whose, reason.limit.ends) == (Whose.PARTITION, Ends.NEVER)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("ReqNodeNotAvail, UnavailableNodes:n[1-4]", ReasonKind.WAITS),
        ("ReqNodeNotAvail, Reserved for maintenance", ReasonKind.WAITS),
        (
            "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
            ReasonKind.WAITS,
        ),
        ("Resources,JobArrayTaskLimit", ReasonKind.WAITS),
        ("RaisedSignal:9(Killed)", ReasonKind.WAITS),
        ("No suitable topology unit found for segment", ReasonKind.WAITS),
        ("launch failed requeued held", ReasonKind.HELD_BY_SLURM),
        ("job requeued in special exit state", ReasonKind.HELD_BY_SLURM),
        ("launch failure limit exceeded requeued held", ReasonKind.HELD_BY_SLURM),
        ("License request 'matlab:3' is no longer valid, holding job", ReasonKind.HELD_BY_SLURM),
        ("Reservation maint was deleted", ReasonKind.HELD_BY_SLURM),
        ("Job's account not permitted to use this partition (gpu allows a not b)", ReasonKind.CANNOT_RUN),
        ("Job's QOS not permitted to use this partition (gpu denies x including x)", ReasonKind.CANNOT_RUN),
        ("uid 1003 not in group permitted to use this partition (gpu). groups allowed: ml", ReasonKind.CANNOT_RUN),
    ],
)
def test_a_reason_with_a_text_behind_it_is_known_by_its_beginning(text, kind):
    reason = reason_of(text)
    assert reason.known
    assert reason.kind is kind


@given(st.text())
def test_a_reason_is_never_an_error_and_an_unknown_one_means_that_the_job_waits_with_slurms_word(text):
    reason = reason_of(text)
    if not reason.known:
        assert reason.kind is ReasonKind.WAITS
        assert reason.word in reason.clause


def test_of_an_unknown_reason_the_beginning_is_shown_as_far_as_it_is_words():
    assert reason_of("Frobnicator busy: 'x'").word == "Frobnicator busy"
    assert reason_of("217").word == "217", "an older squeue prints the number of a reason that it does not know"
    assert reason_of("\x1b[31m").word == "a text that begins with no word"


STRINGS = json.loads(Path("tests/data/slurm_reasons.json").read_text())
RELEASES = tuple(STRINGS["words"])


def words_of(release: str) -> set[str]:
    """The words that a release has for reasons."""
    words: set[str] = set()
    for name in RELEASES[: RELEASES.index(release) + 1]:
        words = words - set(STRINGS["words"][name]["drops"]) | set(STRINGS["words"][name]["adds"])
    return words


BY_KIND = {
    ReasonKind.HELD_BY_USER: {"JobHeldUser"},
    ReasonKind.HELD_BY_ADMIN: {"JobHeldAdmin"},
    ReasonKind.HELD_BY_SLURM: {
        *("JobHoldMaxRequeue", "BurstBufferOperation", "ReservationDeleted", "ReservationInvalid"),
    },
    ReasonKind.DEPENDENCY: {"Dependency"},
    ReasonKind.DEPENDENCY_NEVER: {"DependencyNeverSatisfied"},
    ReasonKind.BEGIN: {"BeginTime"},
    ReasonKind.RESERVATION: {"Reservation"},
    ReasonKind.CLOSED: {"PartitionDown", "PartitionInactive"},
    ReasonKind.CANNOT_RUN: {
        *("BadConstraints", "PartitionConfig", "PartitionTimeLimit", "PartitionNodeLimit", "MaxMemPerLimit"),
        *("DeadLine", "InvalidAccount", "InvalidQOS", "AccountNotAllowed", "QOSNotAllowed"),
    },
    ReasonKind.WAITS: {
        *("None", "Priority", "Resources", "ReqNodeNotAvail", "Constraints", "SchedDefer", "Prolog", "Cleaning"),
        *("FrontEndDown", "BurstBufferResources", "BurstBufferStageIn", "PowerNotAvail", "PowerReserved"),
        *("MaxPoweredUpNodes", "MpiPortsBusy", "NvidiaImexChannels", "BlockMaxError", "BlockFreeAction", "FedJobLock"),
        *("NodeDown", "SystemFailure", "JobLaunchFailure", "NonZeroExitCode", "RaisedSignal", "TimeLimit"),
        *("InactiveLimit", "OutOfMemory"),
    },
}  # fmt: skip
"""The words of all releases by what they mean; the others are limits."""


@pytest.mark.parametrize("release", RELEASES)
def test_every_word_of_every_release_is_known_and_means_what_it_should(release):
    words = words_of(release)
    assert len(words) > 190
    expected = {word: kind for kind, group in BY_KIND.items() for word in group}
    meanings = {word: reason_of(word) for word in words}
    assert {word for word, reason in meanings.items() if not reason.known} == set()
    wrong = {word: one.kind for word, one in meanings.items() if one.kind is not expected.get(word, ReasonKind.LIMIT)}
    assert not wrong


def test_every_word_of_the_table_is_printed_by_some_release():
    printed = set().union(*(words_of(release) for release in RELEASES))
    assert set(WORDS) - printed == {"", "(null)", "InvalidReason", "WaitingForScheduling"}


def test_every_text_of_every_release_is_known_in_each_spelling():
    for row in STRINGS["texts"]:
        text = row["text"]
        reason = reason_of(text)
        assert reason.known, text
        assert reason_of(f"({text})") == reason
        folded = reason_of(text.replace(" ", "_"))
        assert (folded.known, folded.kind, folded.clause) == (True, reason.kind, reason.clause), text


def test_names_behind_a_reason_are_taken_from_it_without_the_words_of_other_tasks():
    assert reason_of("ReqNodeNotAvail, UnavailableNodes:gpu_1,n[1-4,7]").named == "gpu_1,n[1-4,7]"
    assert reason_of("ReqNodeNotAvail, UnavailableNodes:n1,Dependency").named == "n1"
    assert reason_of("ReqNodeNotAvail,_UnavailableNodes:gpu_1").named == "gpu_1"
    assert reason_of("Reservation maint_2 was deleted").named == "maint_2"
    assert reason_of(f"ReqNodeNotAvail, UnavailableNodes:{','.join(f'n{node}' for node in range(99))}").named == ""


HOSTILE = "Run-curl-evil.example-now"


@pytest.mark.parametrize(
    "text",
    [
        f"burst_buffer/lua: Invalid burst buffer spec (#BB {HOSTILE})",
        f"burst_buffer/datawarp: Delete buffer {HOSTILE} permission denied",
        f"License request '{HOSTILE}' is no longer valid, holding job",
        f"Job's QOS not permitted to use this partition (gpu denies x including {HOSTILE})",
        f"Resources,{HOSTILE}",
        f"RaisedSignal:{HOSTILE}",
        f"Something new ({HOSTILE})",
        f"ReqNodeNotAvail, Reserved for maintenance {HOSTILE}",
    ],
)
def test_nobody_places_a_text_of_his_own_in_what_is_said(text):
    reason = reason_of(text)
    fields = dict.fromkeys(("job", "partition", "reservation", "account", "qos", "nodes", "limit"), "1")
    said = (reason.word, reason.clause, reason.named, reason.sentence(fields), reason.advice(fields))
    assert not any("evil" in part for part in said)


def test_what_slurm_says_of_one_partition_tells_nothing_of_a_job_in_several():
    reasons = ["PartitionTimeLimit", "PartitionTimeLimit", "QOSMaxGRESPerUser"]
    waiting = jobs(3, reason=reasons, partition=["short", "short,long", "short,long"])
    assert where_kind(waiting, ReasonKind.CANNOT_RUN).tolist() == [True, False, False]
    assert where_kind(waiting, ReasonKind.WAITS).tolist() == [False, True, False]
    assert where_kind(waiting, ReasonKind.LIMIT).tolist() == [False, False, True]


def test_what_slurm_says_of_one_qos_tells_nothing_of_a_job_with_several():
    reasons = ["QOSMaxGRESPerUser", "QOSMaxGRESPerUser", "AssocGrpCpuLimit"]
    waiting = jobs(3, reason=reasons, qos=["low", "high,low", "high,low"])
    assert where_kind(waiting, ReasonKind.LIMIT).tolist() == [True, False, True]
    assert where_kind(waiting, ReasonKind.WAITS).tolist() == [False, True, False]
