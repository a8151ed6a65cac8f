"""The command adapter against commands that answer as told: scripts in a directory of their own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from headers import HEADER

from slurmsched.cluster.actions import AskToStop, Rank, Resize, SetAdminComment, Share, StartShared
from slurmsched.errors import SlurmRefused, SlurmUnavailable
from slurmsched.slurm.adapters.command import SlurmCommand
from slurmsched.slurm.adapters.command_runner import CommandRunner
from slurmsched.slurm.adapters.command_writer import AGAIN

CONFIG = """echo 'ClusterName = toy'
echo 'SLURM_VERSION = 22.05.8'
echo 'PriorityType = priority/multifactor'
echo 'AccountingStorageType = accounting_storage/none'
"""

READERS = ("squeue", "sinfo", "sprio")


class Commands:
    """A bin directory whose programs say what a test wants."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for name in READERS:
            self.says(name, HEADER)
        self.says("sdiag", "")
        self.says("scontrol", CONFIG)

    def says(self, name: str, script: str) -> None:
        path = self.directory / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def cluster(self, timeout_s: float = 10.0) -> SlurmCommand:
        return SlurmCommand(CommandRunner(bin_dir=str(self.directory), timeout_s=timeout_s))


@pytest.fixture
def commands(tmp_path: Path) -> Commands:
    return Commands(tmp_path)


def test_an_empty_cluster_reads_as_empty(commands):
    state = commands.cluster().observe()
    assert len(state.pending) == len(state.running) == len(state.ended) == len(state.nodes) == 0


def test_what_nodes_have_is_asked_only_where_gpus_may_be_shared(commands):
    commands.says("sinfo", f"echo asked >> {commands.directory}/asked\n{HEADER}")
    commands.says("scontrol", CONFIG + "echo 'GresTypes = gpu'")
    assert commands.cluster().facts().gres == {}
    assert not (commands.directory / "asked").exists()
    commands.says("scontrol", CONFIG + "echo 'GresTypes = gpu,slot'")
    assert commands.cluster().facts().gres == {}
    assert (commands.directory / "asked").exists()


def test_a_look_asks_once_about_reservations_and_never_about_a_flat_network(commands):
    for name, heading in (("squeue", HEADER), ("sinfo", HEADER), ("sprio", HEADER), ("scontrol", CONFIG)):
        commands.says(name, f'echo {name} "$@" >> {commands.directory}/asked\n{heading}')
    cluster = commands.cluster()
    cluster.facts()
    (commands.directory / "asked").unlink()
    commands.says("scontrol", f'echo scontrol "$@" >> {commands.directory}/asked\necho No reservations in the system')
    cluster.observe()
    asked = (commands.directory / "asked").read_text().splitlines()
    assert sorted(line.split()[0] for line in asked) == ["scontrol", "sinfo", "sprio", "squeue"]
    assert [line for line in asked if line.startswith("scontrol")] == ["scontrol show reservation --all --oneliner"]


@pytest.mark.parametrize("reads", [False, True])
def test_loads_and_excluded_nodes_of_running_jobs_are_asked_for_only_where_somebody_needs_them(commands, reads):
    heading = "case \"$*\" in *' -o '*) for format; do :; done; echo \"$format\" | sed 's/%A/JOBID/'; exit;; esac"
    for name in ("squeue", "sinfo"):
        commands.says(name, f'echo {name} "$@" >> {commands.directory}/asked\n{heading}\n{HEADER}')
    replace(commands.cluster(), apart=lambda: {"excluded_nodes", *["node_loads"] * reads}).observe()
    asked = (commands.directory / "asked").read_text()
    assert ("CPUsLoad" in asked, "FreeMem" in asked, "-t PD,R -o" in asked) == (reads, reads, reads)
    assert ("-t PD -o" in asked) == (not reads)


every_reader = pytest.mark.parametrize("command", READERS)


@every_reader
@pytest.mark.parametrize("script", ["true", "echo", "head -c 3000 /dev/urandom", "echo slurm_load_jobs: hello"])
def test_what_has_not_the_header_that_was_asked_for_is_no_look_though_its_exit_status_is_0(commands, command, script):
    commands.says(command, script)
    with pytest.raises(SlurmUnavailable, match=f"{command} printed something that is not its answer"):
        commands.cluster().observe()


@every_reader
@pytest.mark.parametrize("left_out_b", [1, 2, 8, 60])
def test_an_answer_that_ends_within_a_record_was_cut_off(commands, command, left_out_b):
    commands.says(command, f"{{ {HEADER} 7; }} | head -c -{left_out_b}")
    with pytest.raises(SlurmUnavailable, match=f"the answer of {command} was cut off"):
        commands.cluster().observe()


@every_reader
def test_a_record_without_its_fields_spoils_the_look(commands, command):
    commands.says(command, f"{HEADER}; echo 7~${{format##*~}}")
    with pytest.raises(SlurmUnavailable, match=f"the answer of {command} has records without the requested fields"):
        commands.cluster().observe()


@every_reader
def test_values_that_mean_nothing_spoil_the_look_and_are_no_bug(commands, command):
    commands.says(command, f"{HEADER} x:y:z")
    with pytest.raises(SlurmUnavailable, match=f"the answer of {command} has values that mean nothing"):
        commands.cluster().observe()


@pytest.mark.parametrize("script", ["true", "echo hello", "echo 'ClusterName = toy'"])
def test_what_is_not_the_configuration_is_no_answer(commands, script):
    commands.says("scontrol", script)
    with pytest.raises(SlurmUnavailable, match="not the configuration"):
        commands.cluster().facts()


def test_what_is_not_the_load_is_no_answer(commands):
    commands.says("sdiag", "echo hello")
    with pytest.raises(SlurmUnavailable, match="sdiag"):
        commands.cluster().load()


@pytest.mark.parametrize("printed", ["", "hello", "Priority|Name\\nhigh|normal", "Priority|Name\\n5|nor"])
def test_what_is_not_the_list_of_qos_leaves_what_was_known(commands, printed):
    with_accounts = CONFIG.replace("accounting_storage/none", "accounting_storage/slurmdbd")
    commands.says("scontrol", with_accounts)
    commands.says("sacctmgr", r"printf 'Priority|Name\n50|normal\n'")
    cluster = commands.cluster()
    cluster.facts()
    commands.says("sacctmgr", f"printf '{printed}'")
    assert cluster.facts().admin_level in ("SlurmUser", "unknown")
    assert (list(cluster.qos.name), cluster.qos.priority.tolist()) == (["normal"], [50])


SHOW_JOB = (
    f"""
if [ "$*" = "show config" ]; then
{CONFIG}
exit
fi
"""
    + """
while read line; do
    case "$line" in
    "show job 7") echo JobId=7 ;;
    *) echo "slurm_load_jobs error: Invalid job id specified" >&2; code=1 ;;
    esac
done
exit ${code:-0}
"""
)


@pytest.mark.parametrize(
    ("jobs", "forgotten"), [([], True), ([8], True), ([8, 9], True), ([7], False), ([8, 7, 9], False)]
)
def test_jobs_are_forgotten_when_scontrol_denies_each_of_them(commands, jobs, forgotten):
    commands.says("scontrol", SHOW_JOB)
    assert commands.cluster().forgot(jobs) is forgotten


@pytest.mark.parametrize("script", ["true", "exit 1", "echo 'Invalid job id specified' >&2; exit 1"])
def test_jobs_that_scontrol_says_nothing_of_are_not_forgotten(commands, script):
    commands.says("scontrol", script)
    assert not commands.cluster().forgot([7, 8])


def test_jobs_denied_before_the_right_to_see_them_came_back_are_not_forgotten(commands):
    right = commands.directory / "right"
    commands.says("as", 'if [ "$1" = id ]; then echo carol; else exec "$@"; fi')
    commands.says(
        "scontrol",
        f"""
case "$*" in
"show config") {CONFIG}
    echo 'PrivateData = jobs' ;;
"show assoc_mgr"*) touch {right}; echo 'UserName=carol(1000) DefAccount=bio AdminLevel=Operator' ;;
*) while read line; do
    if [ -e {right} ]; then echo JobId=7; else echo "slurm_load_jobs error: Invalid job id specified" >&2; fi
done ;;
esac""",
    )
    console = CommandRunner(bin_dir=str(commands.directory), prefix=(str(commands.directory / "as"),), timeout_s=10.0)
    assert SlurmCommand(console).forgot([7]) is False
    assert right.exists()


def test_a_controller_that_is_away_has_forgotten_nothing(commands):
    commands.says("scontrol", "echo 'Unable to contact slurm controller (connect failure)' >&2; exit 1")
    with pytest.raises(SlurmUnavailable):
        commands.cluster().forgot([7])


@pytest.mark.parametrize("complaint", ["Unable to contact slurm controller (connect failure)", "Connection refused"])
def test_a_controller_that_is_away_is_unavailable(commands, complaint):
    commands.says("squeue", f"echo 'slurm_load_jobs error: {complaint}' >&2; exit 1")
    with pytest.raises(SlurmUnavailable, match=r"squeue: .*contact|refused"):
        commands.cluster().observe()


def test_another_complaint_is_a_refusal_in_slurms_words(commands):
    commands.says("squeue", "echo 'squeue: error: Invalid field' >&2; exit 1")
    with pytest.raises(SlurmRefused, match="Invalid field"):
        commands.cluster().observe()


def test_a_command_that_hangs_costs_the_time_limit_and_no_more(commands):
    commands.says("squeue", "exec sleep 60")
    with pytest.raises(SlurmUnavailable, match="squeue did not answer"):
        commands.cluster(timeout_s=0.3).observe()


def test_a_command_that_is_not_there_is_unavailable(commands):
    (commands.directory / "squeue").unlink()
    with pytest.raises(SlurmUnavailable, match="squeue cannot be run: No such file or directory"):
        commands.cluster().observe()


def test_variables_that_change_what_slurm_prints_are_not_passed_on(commands):
    commands.says("squeue", 'env > "$(dirname "$0")/seen"\n' + HEADER)
    loud = {"SQUEUE_FORMAT": "%i", "SQUEUE_FEDERATION": "1", "SLURM_TIME_FORMAT": "relative", "SQUEUE_STATES": "all"}
    loud["PATH"] = "/usr/bin:/bin"
    SlurmCommand(CommandRunner(bin_dir=str(commands.directory), environment=loud)).observe()
    seen = (commands.directory / "seen").read_text()
    assert "SQUEUE_FORMAT" not in seen
    assert "SQUEUE_STATES" not in seen
    assert "SLURM_TIME_FORMAT=%s" in seen
    assert "SQUEUE_FEDERATION" not in seen
    assert "SQUEUE_LOCAL=1" in seen, "of a federation it shows this cluster alone"


@pytest.mark.parametrize(
    ("commands_are", "slurmctld_is", "asked"),
    [
        ("26.05.5", "26.05.5", "Exclusive"),
        ("25.11.2", "26.05.5", "OverSubscribe"),
        ("22.05.8", "22.05.8", "OverSubscribe"),
    ],
)
def test_commands_are_asked_only_for_fields_of_their_own_release(commands, commands_are, slurmctld_is, asked):
    commands.says("squeue", 'echo "$@" > "$(dirname "$0")/asked"\n' + HEADER)
    config = CONFIG.replace("22.05.8", slurmctld_is)
    commands.says("scontrol", f'[ "$1" = --version ] && exec echo slurm-wlm {commands_are}\n{config}')
    commands.cluster().observe()
    words = (commands.directory / "asked").read_text()
    assert [name for name in ("Exclusive", "OverSubscribe") if f",{name}:" in words] == [asked]


def test_every_call_draws_fresh_marks(commands):
    commands.says("squeue", 'echo "$@" >> "$(dirname "$0")/asked"\n' + HEADER)
    cluster = commands.cluster()
    cluster.observe()
    cluster.observe()
    first, second = (commands.directory / "asked").read_text().splitlines()
    assert first != second
    assert "JobID:~" in first


def test_writes_go_through_standard_input_and_a_complaint_is_of_its_job_alone(commands):
    cluster = commands.cluster()
    cluster.facts()
    commands.says("scontrol", 'cat > "$(dirname "$0")/sent"; echo "Access denied for job 2" >&2; exit 1')
    answers = cluster.act([Rank(1, 5), Rank(2, 6), Rank(22, 7)])
    assert [answer.refused for answer in answers] == [None, "Access denied for job 2", None]
    assert (commands.directory / "sent").read_text().splitlines() == [
        "update jobid=1 sitefactor=5",
        "update jobid=2 sitefactor=6",
        "update jobid=22 sitefactor=7",
    ]


SHOWN = """
for format; do :; done
field=${format#JobID:} field=${field%%,*} record=${format##*:}
echo "$@" >> "$(dirname "$0")/shows"
show() { for text; do printf '%s' "$between$text"; between=$field; done; between=; printf '%s\\n' "$record"; }
show JOBID $(echo "$format" | tr -cd , | sed 's/,/x /g')
"""


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        (["1-6: Job has already finished", "7-8: No error"], None),
        (["1-2: Job has already finished", "3-4: Job is no longer pending execution", "5,7: No error"], None),
        (["1-2: Job has already finished", "5-6: Invalid partition name specified"], "Invalid partition name"),
        (["1-4: No error", "5-6: Access denied"], "Access denied for job 12"),
        (["1-6: Job has already finished"], None),  # 24.11 says nothing of the others
        (["[1-4]: Job has already finished", "[5-6]: Job is no longer pending execution"], None),  # 26.05
        (["[1-4]: Job has already finished", "[5-6]: Access denied"], "Access denied for job 12"),
    ],
)
def test_an_array_whose_tasks_are_answered_for_one_by_one_is_refused_only_for_what_waits(commands, words, refused):
    cluster = commands.cluster()
    cluster.facts()
    lines = "; ".join(f"echo '12_{line}' >&2" for line in words)
    commands.says("scontrol", f"cat >> {commands.directory}/sent; {lines}; exit 1")
    answers = cluster.act([Rank(7, 5), Rank(12, 6)])
    assert answers[0].refused is None
    assert (answers[1].refused or "").startswith(refused or "")
    assert (answers[1].refused is None) is (refused is None)


def test_a_line_of_an_array_that_was_refused_holds_back_those_that_follow_it_and_one_that_was_not_does_not(commands):
    cluster = commands.cluster()
    cluster.facts()
    script = "[ \"$1\" != show ] || exit 0; cat >> {at}/sent; echo '2_1: Job has already finished\n2_2: {words}' >&2"
    for words, reached in (("Invalid feature", False), ("No error", True)):
        commands.says("scontrol", script.format(at=commands.directory, words=words) + "; exit 1")
        commands.says("squeue", f"{SHOWN}show 2 '' gres:gpu:1 N/A '(null)' node=1 1 0")
        cluster.act([Share(2, "gpu", "shared", "n2", "0", "", 9.0)])
        assert ("gres:slot" in (commands.directory / "sent").read_text()) is reached


MOODY = """[ "$1" != show ] || exit 0
n=$(cat {at}/n 2>/dev/null || echo 0); echo $((n + 1)) > {at}/n; cat >> {at}/sent
[ $n -ge {times} ] || {{ echo "{words} for job 2" >&2; exit 1; }}"""


@pytest.mark.parametrize(
    ("words", "times", "refused", "sent_2"),
    [
        ("Resource temporarily unavailable", 2, False, 4),
        ("Resource temporarily unavailable", AGAIN + 2, True, AGAIN + 1),
        ("Invalid partition name specified", 1, True, 1),
    ],
)
def test_what_slurm_refuses_for_a_moment_is_asked_again_at_once(commands, words, times, refused, sent_2):
    cluster = commands.cluster()
    cluster.facts()
    commands.says("scontrol", MOODY.format(at=commands.directory, words=words, times=times))
    commands.says(
        "squeue", f"{SHOWN}show 1 '' gres:slot:i1:1 N/A '' node=1 1 1; show 2 '' gres:gpu:1 N/A '(null)' node=1 1 0"
    )
    answers = cluster.act([StartShared(1, "1"), Share(2, "gpu", "shared", "n2", "0", "", 9.0)])
    assert [answer.refused is not None for answer in answers] == [False, refused]
    sent = (commands.directory / "sent").read_text()
    assert sent.count("jobid=1 ") == 1
    assert sent.count("jobid=2 ") == sent_2
    assert ("gres:slot" in sent) is not refused, "a line that was refused holds back those that follow it"


def test_a_job_that_asks_for_more_than_its_slots_by_the_time_of_the_write_is_not_let_start(commands):
    cluster = commands.cluster()
    cluster.facts()
    commands.says(
        "squeue",
        f"{SHOWN}show 1 gres:gpu:4 gres:slot:i1:1 N/A '' node=1 1 1; show 2 '' gres:slot:i0:1 N/A '' node=1 1 1",
    )
    commands.says("scontrol", f"cat >> {commands.directory}/sent")
    more, good, gone = cluster.act([StartShared(1, "1"), StartShared(2, "0"), StartShared(3, "0")])
    assert more.refused == "it asks for gres:gpu:4,gres:slot:i1:1, which is not what share=1 says"
    assert (good.refused, gone.refused) == (None, "squeue does not show it")
    assert (commands.directory / "sent").read_text() == "update jobid=2 starttime=now\n"


def test_a_job_with_fewer_nodes_is_given_more_before_slurmctld_has_looked_at_it_again(commands):
    cluster = commands.cluster()
    cluster.facts()
    asked = "case $format in *per-socket*) show 7 '' gres:gpu:1 N/A '' cpu=2,node=1 2 1;; "
    size = "*) show 7 7 1 2 2 2 4000M cpu=2,mem=4000M,node=1 2 1 gres:gpu:1;; esac"
    commands.says("squeue", SHOWN + asked + size)
    commands.says("scontrol", f"cat >> {commands.directory}/sent")
    more, other = cluster.act([Resize(7, 2, 1, 1, 1), Resize(7, 1, 2, 1, 1)])
    assert (more.refused, other.refused) == (None, "it asks for 1 to 1 nodes by now, which is not 2")
    assert "numnodes=2-2 numtasks=2 numcpus=4 minmemorynode=4000 " in (commands.directory / "sent").read_text()


def test_a_controller_that_goes_away_while_writing_is_unavailable(commands):
    cluster = commands.cluster()
    cluster.facts()
    commands.says("scontrol", "echo 'Unable to contact slurm controller for job 1' >&2; exit 1")
    with pytest.raises(SlurmUnavailable):
        cluster.act([Rank(1, 5)])


def test_the_load_is_the_sum_over_message_types(commands):
    commands.says(
        "sdiag",
        "echo 'sdiag output at Sat Nov 21 12:16:25 2026 (1795263385)'\n"
        "echo 'Agent queue size:    3'; echo 'Remote Procedure Call statistics by message type'\n"
        "echo 'REQUEST_A ( 1) count:10 ave_time:100 total_time:1000'\n"
        "echo 'REQUEST_B ( 2) count:30 ave_time:100 total_time:3000'\n"
        "echo 'Remote Procedure Call statistics by user'\n"
        "echo 'root ( 0) count:40 ave_time:100 total_time:4000'",
    )
    load = commands.cluster().load()
    assert (load.rpc_count, load.agent_queue, load.now_s) == (40, 3, 1795263385.0)
    assert load.rpc_total_s == pytest.approx(0.004)
    assert load.rpc_mean_s == pytest.approx(0.0001)


def test_a_signal_goes_to_the_steps_and_to_the_script_of_what_runs(commands):
    commands.says("scancel", f'echo "$@" >> {commands.directory}/sent; exit 0')
    assert commands.cluster().act([AskToStop(7, "URG")])[0].refused is None
    sent = (commands.directory / "sent").read_text().splitlines()
    assert sent == ["--state=RUNNING --signal=URG 7", "--state=RUNNING --signal=URG --full 7"]


def test_all_jobs_get_their_signal_by_one_command_and_a_refused_one_gets_no_second(commands):
    complaint = "scancel: error: Kill job error on job id 8: Invalid job id specified"
    sends = f'echo "$@" >> {commands.directory}/sent; case "$*" in *--full*) exit 0;; esac'
    commands.says("scancel", f'{sends}; echo "{complaint}" >&2; exit 1')
    answers = commands.cluster().act([AskToStop(job, "URG") for job in (7, 8, 9)])
    assert [answer.refused for answer in answers] == [None, complaint, None]
    sent = (commands.directory / "sent").read_text().splitlines()
    assert sent == ["--state=RUNNING --signal=URG 7 8 9", "--state=RUNNING --signal=URG --full 7 9"]


def test_a_complaint_about_a_job_that_was_not_asked_concerns_no_other_beside_one_and_alone_concerns_all(commands):
    complaint = "scancel: error: Kill job error on job id {}: Invalid job id specified"
    both = "\n".join(map(complaint.format, (8, 99)))
    commands.says("scancel", f"echo '{both}' >&2; exit 1")
    answers = commands.cluster().act([AskToStop(job, "URG") for job in (7, 8)])
    assert answers[1].refused == complaint.format(8)
    assert "99" in answers[0].refused, "the second command names none of those that are left"
    commands.says("scancel", f"case \"$*\" in *--full*) exit 0;; esac; echo '{both}' >&2; exit 1")
    answers = commands.cluster().act([AskToStop(job, "URG") for job in (7, 8)])
    assert [answer.refused for answer in answers] == [None, complaint.format(8)]


def test_a_complaint_about_a_task_concerns_that_task_alone(commands):
    """Tasks 12_3 and 12_4 are the jobs 13 and 12, for the last task of an array has the array's own number."""
    commands.says("squeue", SHOWN + "show 13 12 3\nshow 12 12 4\nshow 7 7 N/A")
    complaint = "scancel: error: Kill job error on job id 12_3: Job is busy"
    commands.says("scancel", f'case "$*" in *--full*) exit 0;; esac; echo "{complaint}" >&2; exit 1')
    answers = commands.cluster().act([AskToStop(job, "URG") for job in (7, 12, 13)])
    assert ["Job is busy" in (answer.refused or "") for answer in answers] == [False, False, True]
    commands.says("squeue", SHOWN + "show 7 7 N/A")
    answers = commands.cluster().act([AskToStop(job, "URG") for job in (7, 12, 13)])
    assert all("Job is busy" in (answer.refused or "") for answer in answers), "nobody knows whose it is"


def test_a_refused_signal_is_told_and_one_without_an_answer_is_not_taken_for_a_refusal(commands):
    commands.says("scancel", "echo 'scancel: error: Kill job error on job id 7: Invalid job id specified' >&2; exit 1")
    answers = commands.cluster().act([AskToStop(7, "URG"), Rank(8, 5)])
    assert "Invalid job id" in answers[0].refused
    assert answers[1].refused is None, "the rest is done"
    commands.says("scancel", "echo 'scancel: error: Unable to contact slurm controller' >&2; exit 1")
    with pytest.raises(SlurmUnavailable, match="scancel"):
        commands.cluster().act([AskToStop(7, "URG")])


def test_an_admin_comment_of_somebody_else_stays_and_all_others_are_written_at_once(commands):
    told = {7: "ticket 12", 8: "slurmsched:in-doubt", 9: "(null)", 30: "", 31: "ticket 13"}
    rows = [f"show {job} {30 if job > 29 else job} '{text}'" for job, text in told.items()]
    commands.says("squeue", SHOWN + "\n".join(rows))
    commands.says("scontrol", f'if [ "$1" ]; then {CONFIG}else cat >> {commands.directory}/sent; fi')
    answers = commands.cluster().act([SetAdminComment(job, "slurmsched:met") for job in (7, 8, 9, 10, 30)])
    somebody = "its AdminComment is somebody else's"
    assert [answer.refused for answer in answers] == [somebody, None, None, "squeue does not show it", somebody]
    sent = (commands.directory / "sent").read_text().splitlines()
    assert sent == [f"update jobid={job} admincomment=slurmsched:met" for job in (8, 9)]
    assert len((commands.directory / "shows").read_text().splitlines()) == 1


def test_a_job_whose_request_cannot_be_looked_at_keeps_its_gpus(commands):
    look = 'if [ "$1 $2" = "show job" ]; then echo "error: Zero Bytes were transmitted" >&2; exit 1; fi; '
    commands.says("scontrol", f'{look}if [ "$1" ]; then {CONFIG}else cat >> {commands.directory}/sent; fi')
    answers = commands.cluster().act([Share(7, "gpu", "shared", "n2", "0", "", 9.0), Rank(8, 5)])
    assert "Zero Bytes" in answers[0].refused
    assert answers[1].refused is None
    assert (commands.directory / "sent").read_text() == "update jobid=8 sitefactor=5\n"


def test_a_job_that_is_gone_is_told_nothing(commands):
    commands.says("squeue", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    assert "Invalid job id" in commands.cluster().act([SetAdminComment(7, "slurmsched:met")])[0].refused
