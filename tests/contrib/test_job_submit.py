"""The Lua plugin and the Python parser accept and refuse the same comments."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from examples import examples
from slurmsched.cluster.text.comment import ACCEPTED, SILENT, parse, read
from slurmsched.errors import CommentError

HERE = Path(__file__).parent
SCRIPT = HERE.parents[1] / "contrib/slurm.conf.d/job_submit.lua"
BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 10, 1, 12, tzinfo=BERLIN)
LUA = shutil.which("lua5.1")

pytestmark = pytest.mark.skipif(LUA is None, reason="lua5.1 is not installed")

COMMENTS = """
slurmsched:ckpt|{"team":"x"} slurmsched:ckpt; more|(slurmsched:nopack;)|slurmsched:ckpt x slurmsched:nopack
slurmsched:|slurmsched: ckpt|slurmsched:ckpt,|slurmsched:,|slurmsched:dedline=+6h|slurmsched:Ckpt|slurmsched:ckpt=yes
myslurmsched:x|my_slurmsched:x|9slurmsched:x|-slurmsched:x|éslurmsched:x|Slurmsched:x|slurmsched:a,slurmsched:ckpt
slurmsched:ckpt slurmsched:ckpt|slurmsched:gpus=1,gpus=2|slurmsched:ckpt=|slurmsched:=|slurmsched:=x|slurmsched:@
slurmsched:deadline|slurmsched:deadline=|slurmsched:deadline=+6h|slurmsched:deadline=+90m|slurmsched:deadline=+1d12h
slurmsched:deadline=+0h|slurmsched:deadline=+|slurmsched:deadline=+2h1d|slurmsched:deadline=+3650d
slurmsched:deadline=+3650d1s|slurmsched:deadline=+1234567s|slurmsched:deadline=+123456s|slurmsched:deadline=6h
slurmsched:deadline=+1h1h|slurmsched:deadline=+1hh|slurmsched:deadline=-1h|slurmsched:deadline=+1.5h
slurmsched:deadline=2026-12-01T18:00|slurmsched:deadline=2026-12-01T18:00:59|slurmsched:deadline=2026-12-01T18:00Z
slurmsched:deadline=2026-12-01T18:00+01:00|slurmsched:deadline=2026-12-01T18:00-14:59|slurmsched:deadline=2026-12-01
slurmsched:deadline=2026-12-01T18:00+15:00|slurmsched:deadline=2026-12-01T18:00+01:60|slurmsched:deadline=2026-12-01T1:00
slurmsched:deadline=2026-02-29T18:00|slurmsched:deadline=2028-02-29T18:00|slurmsched:deadline=2100-02-29T18:00
slurmsched:deadline=2026-11-31T18:00|slurmsched:deadline=2026-12-31T18:00|slurmsched:deadline=2026-00-01T18:00
slurmsched:deadline=2026-13-01T18:00|slurmsched:deadline=2026-12-00T18:00|slurmsched:deadline=2026-12-01T24:00
slurmsched:deadline=2026-12-01T18:60|slurmsched:deadline=2026-12-01T18:00:60|slurmsched:deadline=2026-12-01T18:00z
slurmsched:deadline=2026-10-25T02:30|slurmsched:deadline=2026-10-25T01:59|slurmsched:deadline=2026-10-25T03:00
slurmsched:deadline=2027-03-28T02:30|slurmsched:deadline=2027-03-28T01:59|slurmsched:deadline=2027-03-28T03:00
slurmsched:deadline=2026-10-25T02:30+02:00|slurmsched:deadline=2199-12-31T23:59|slurmsched:deadline=2200-01-01T00:00
slurmsched:deadline=2020-01-01T00:00|slurmsched:deadline=2026-10-01T12:00|slurmsched:deadline=2026-10-01T12:01
slurmsched:deadline=2026-10-01T10:00Z|slurmsched:deadline=2026-10-01T10:01Z|slurmsched:deadline=2026-10-01T12:00-00:01
slurmsched:soft|slurmsched:soft,deadline=+1h|slurmsched:80@+8h|slurmsched:80@+8h,50@+10h,deadline=+6h|slurmsched:80@
slurmsched:deadline=+6h,100@+8h|slurmsched:deadline=+6h,0@+8h|slurmsched:deadline=+6h,99@+8h|slurmsched:deadline=+6h,1@+8h
slurmsched:deadline=+6h,80@soon|slurmsched:deadline=+6h,80@+5h|slurmsched:deadline=+6h,80@+6h|slurmsched:deadline=+6h,08@+8h
slurmsched:deadline=+6h,50@+8h,80@+9h|slurmsched:deadline=+6h,50@+8h,50@+9h|slurmsched:deadline=+6h,50@2027-01-01T00:00
slurmsched:deadline=+6h,50@2020-01-01T00:00|slurmsched:deadline=+6h,50@2026-10-25T02:30|slurmsched:80@+8h=1,deadline=+1h
slurmsched:gpus=2-8|slurmsched:gpus=4|slurmsched:gpus=4-4|slurmsched:gpus=8-2|slurmsched:gpus=0|slurmsched:gpus=2-
slurmsched:gpus=-2|slurmsched:gpus=2--8|slurmsched:gpus=02|slurmsched:gpus=2-08|slurmsched:gpus=99999|slurmsched:gpus=100000
slurmsched:gpus=1-100000|slurmsched:gpus=²|slurmsched:gpus=|slurmsched:gpus=2-8-9|slurmsched:gpus=10|slurmsched:gpus=9-10
slurmsched:cpus=4-16|slurmsched:cpus=8|slurmsched:cpus=16-4|slurmsched:cpus=0|slurmsched:cpus=4-|slurmsched:cpus=100000
slurmsched:batch=256-1024|slurmsched:batch=64|slurmsched:batch=1024-256|slurmsched:batch=0|slurmsched:batch=64-|slurmsched:batch=
slurmsched:batch=99999|slurmsched:batch=100000|slurmsched:batch=64,batch=64|slurmsched:batches=64|slurmsched batch=64
slurmsched:mem=16G-64G|slurmsched:mem=900|slurmsched:mem=900-1T|slurmsched:mem=64G-16G|slurmsched:mem=1024M-1G|slurmsched:mem=1025M-1G
slurmsched:mem=0|slurmsched:mem=016G|slurmsched:mem=16g|slurmsched:mem=16GB|slurmsched:mem=|slurmsched:mem=-16G|slurmsched:mem=16G-
slurmsched:mem=1G-2G-3G|slurmsched:mem=999999999T|slurmsched:mem=1000000000|slurmsched:mem=1G--2G|slurmsched:mem=1.5G
slurmsched:coldstart=300|slurmsched:coldstart=0|slurmsched:coldstart=86400|slurmsched:coldstart=86401|slurmsched:coldstart=1h
slurmsched:urgency=0|slurmsched:urgency=10|slurmsched:urgency=11|slurmsched:urgency=-1|slurmsched:urgency=٣
slurmsched:urgency=00|slurmsched:urgency=000|slurmsched:urgency=5.0|slurmsched:urgency=0x5|slurmsched:urgency=1e0
slurmsched:iterations=1|slurmsched:iterations=0|slurmsched:iterations=999999999999|slurmsched:iterations=1000000000000
slurmsched:pace=1|slurmsched:pace=0.25|slurmsched:pace=0|slurmsched:pace=0.000000|slurmsched:pace=0.000001|slurmsched:pace=1.
slurmsched:pace=.5|slurmsched:pace=999999.999999|slurmsched:pace=1000000|slurmsched:pace=0.0000001|slurmsched:pace=1e1
slurmsched:pace=|slurmsched:pace=1.2.3|slurmsched:pace=-1|slurmsched:pace=1,pace=1|slurmsched:pace=٣
slurmsched:done=0|slurmsched:done=999999999999|slurmsched:done=1000000000000|slurmsched:done=-1|slurmsched:done=1.0
slurmsched:iterations=9,done=9|slurmsched:done=10,iterations=9|slurmsched:done=9,done=9|slurmsched:done=|slurmsched:done
slurmsched:stop=never|slurmsched:stop=opt|slurmsched:stop=acc:0.93|slurmsched:stop=acc:1|slurmsched:stop=acc:0
slurmsched:stop=acc:93|slurmsched:stop=acc:1.01|slurmsched:stop=acc:1.0000000000|slurmsched:stop=acc:0.00000000001
slurmsched:stop=loss:0.2%|slurmsched:stop=loss:12%|slurmsched:stop=loss:0.005%|slurmsched:stop=loss:99.999%
slurmsched:stop=loss:0.0005%|slurmsched:stop=loss:0%|slurmsched:stop=loss:0.000%|slurmsched:stop=loss:100%|slurmsched:stop=loss:.2%
slurmsched:stop=loss:1|slurmsched:stop=loss:1.%|slurmsched:stop=loss:%|slurmsched:stop=loss:2%%|slurmsched:stop=loss:1.2.3%
slurmsched:stop=acc:.9|slurmsched:stop=acc:0.|slurmsched:stop=acc:|slurmsched:stop=acc|slurmsched:stop=later
slurmsched:share=|slurmsched:share=1+2|slurmsched:share=a/b|slurmsched:share|slurmsched:off,amp,noprofile|plain text|
Slurmsched:ckpt|SLURMSCHED:ckpt|sLurmsched:|slurmsched :ckpt|slurmsched\t:x|slurmsched ckpt|Slurmsched  Ckpt;
slurmsched\tOFF|slurmsched deadline=+6h|slurmsched gpus=2|slurmsched soft,ckpt|slurmsched ckpts|slurmsched off-site
slurmsched is fine|slurmsched|Slurmsched|slurmsched.|slurmsched ;ckpt|xslurmsched ckpt|_Slurmsched:x|9slurmsched :
slurmsched-ckpt|slurmscheds ckpt|ſlurmsched:ckpt|ſlurmsched ckpt|slurmsched:ckpt Slurmsched:off|slurmsched\xa0ckpt
Slurmsched:off slurmsched:ckpt|slurmsched slurmsched ckpt|slurmsched slurmsched:ckpt|slurmsched share=1|slurmsched ckpt2
slurmsched soft launch|slurmsched off we go|slurmsched ckpt ; x|slurmsched ckpt\t
slurmsched soft, then hard|slurmsched amp+|slurmsched soft, ckpt|slurmsched soft,80@+8h
slurmsched soft,ckpts|slurmsched soft,|slurmsched deadline +6h|slurmsched off = x|slurmsched share of it
slurmsched ckpt\nx|slurmsched  off  ,ckpt|slurmsched gpus 2|slurmsched soft,ckpt_|slurmsched soft,Ckpt
slurmsched 80@+8h|slurmsched:steps|slurmsched:steps=1|slurmsched:coldstart_s=1|slurmsched:__index=1
""".replace("\n", "|").split("|")
STRANGE_ENDS = ("\t", "\x0b\x0cx", "\xa0", "\0", "\x1b", "\x1c", "\r\n", "\x85", "\u2028")
COMMENTS += [f"slurmsched:ckpt{end}" for end in STRANGE_ENDS]
COMMENTS += [f"slurmsched:share={'x' * length}" for length in (64, 65)]

Answer = tuple[str, str]


def ask_lua(comments: Iterable[str], *, entry: str = "submit", uid: int = 0, script: Path = SCRIPT) -> list[Answer]:
    """What the Lua side answers to each comment (yes, no, silent), and what it says, from one process."""
    asked = "".join(f"{entry} {uid} {comment.encode(errors='surrogateescape').hex()}\n" for comment in comments)
    done = subprocess.run(
        [str(LUA), str(HERE / "slurm_stub.lua"), str(script), str(int(NOW.timestamp()))],
        input=asked, capture_output=True, text=True, timeout=300, env={**os.environ, "TZ": "Europe/Berlin"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "fault" not in done.stderr
    answers = [line.split(" ") for line in done.stdout.splitlines()]
    return [(answer, bytes.fromhex(said).decode()) for answer, said in answers]


def ask_python(comment: str) -> str:
    """What the parser answers at submit, where all times must be resolvable and to come."""
    try:
        wishes = parse(comment)
        moments = [wishes.deadline, *(step.by for step in wishes.steps)] if wishes.deadline else []
        times_s = [moment.resolve(NOW.timestamp(), BERLIN) for moment in moments]
    except CommentError:
        return "no"
    return "yes" if all(time_s > NOW.timestamp() for time_s in times_s) else "no"


def disagreements(comments: list[str]) -> list[tuple[str, str, Answer]]:
    answers = ask_lua(comments)
    assert len(answers) == len(comments)
    return [
        (comment, ask_python(comment), answer)
        for comment, answer in zip(comments, answers, strict=True)
        if answer[0] != ask_python(comment)
    ]


def test_lua_and_python_agree_on_the_table():
    assert disagreements(COMMENTS) == []
    assert {"yes", "no"} == {ask_python(comment) for comment in COMMENTS}


TIMES = st.one_of(
    st.from_regex(r"\+([0-9]{1,7}d)?([0-9]{1,3}h)?([0-9]{1,3}m)?([0-9]{1,3}s)?", fullmatch=True),
    st.datetimes(datetime(2020, 1, 1), datetime(2199, 12, 31)).map(lambda wall: wall.isoformat(timespec="minutes")),
    # round about the nights when the clocks change
    st.builds(
        "{}T{:02}:{:02}{}".format,
        st.sampled_from(["2026-10-25", "2027-03-28", "2027-10-31", "2028-03-26", "2028-02-29", "2027-02-29"]),
        st.integers(0, 24),
        st.integers(0, 60),
        st.sampled_from(["", "", ":00", ":60", "Z", "+02:00", "-14:59", "+15:00"]),
    ),
)
ITEMS = st.one_of(
    st.sampled_from(["soft", "ckpt", "pack", "nopack", "noprofile", "amp", "off", "stop=opt", "", "deadlin=+1h"]),
    TIMES.map("deadline={}".format),
    st.builds("{}@{}".format, st.integers(-1, 101), TIMES),
    st.builds(
        "{}={}".format, st.sampled_from(["gpus", "coldstart", "urgency", "iterations"]), st.integers(-1, 100_001)
    ),
    st.from_regex(r"gpus=[0-9]{1,3}-[0-9]{0,3}|stop=acc:[01]?\.?[0-9]{0,12}|share=[ -~é]{0,3}", fullmatch=True),
    st.text(st.characters(codec="utf-8"), max_size=5),
)
TOKENS = st.lists(ITEMS, min_size=1, max_size=5).map(lambda items: "slurmsched:" + ",".join(items))
NEAR = st.builds(
    "{}{}{}".format,
    st.sampled_from(
        ["slurmsched", "Slurmsched", "SLURMSCHED", "ſlurmsched", "slurmshed", "slurm-sched", "9slumsched", "slurm"]
    ),
    st.sampled_from(["", " ", ":", " :", "=", " = ", "\t", "\n", "  ", "\xa0"]),
    st.sampled_from(
        ["ckpt", "Off", "off-", "deadline=", "share", "x", "", ":", "80@", "soft x", "amp,", "off, ckpt", "ckpt "]
    ),
)
COMMENT = st.lists(
    st.one_of(TOKENS, TOKENS, NEAR, st.text(st.characters(codec="utf-8"), max_size=4), st.sampled_from(" ;_\n\t")),
    max_size=5,
).map("".join)


@given(st.lists(COMMENT, min_size=40, max_size=40))
@examples(50, suppress_health_check=list(HealthCheck))
def test_lua_and_python_agree_on_generated_comments(comments):
    assert disagreements(comments) == []


def test_both_list_the_same_keys():
    source = re.sub(r'"\s*\.\.\s*"', "", SCRIPT.read_text())
    assert f'ACCEPTED = "{ACCEPTED}"' in source


def test_a_refusal_says_what_is_accepted():
    [(_, said)] = ask_lua(["slurmsched:x"], uid=1000)
    assert said == f"slurmsched: 'x' is not known; accepted: {ACCEPTED}"


@pytest.mark.parametrize(
    ("comment", "meant"),
    [
        ("slurmsched:dedline=+6h", "deadline"), ("slurmsched:Ckpt", "ckpt"), ("slurmsched:nopak", "nopack"),
        ("slurmsched:urgncy=3", "urgency"), ("slurmsched:itertions=9", "iterations"), ("slurmsched:OFF", "off"),
    ],
)  # fmt: skip
def test_both_ask_whether_a_near_key_was_meant(comment, meant):
    [(_, said)] = ask_lua([comment], uid=1000)
    assert f"did you mean {meant}?" in said
    with pytest.raises(CommentError, match=f"did you mean {meant}"):
        parse(comment)


WORDS = (
    "slurmsched soft launch",
    "my slurmsched off-site run",
    "Slurmsched, done",
    "slurmsched share of the week; x",
    "slurmsched=0.1",
    "slurmsched=offline",
    "slurm:off",
    "scheduler=off",
    "slurmsched2:off",
)


@pytest.mark.parametrize("comment", WORDS)
def test_a_comment_that_only_speaks_of_slurmsched_is_text(comment):
    assert ask_lua([comment], uid=1000) == [("yes", "")]
    assert parse(comment) == SILENT


NEAR_TOKENS = (
    "Slurmsched:ckpt",
    "slurmsched ckpt",
    "slurmsched :ckpt",
    "x; SLURMSCHED:off",
    "slurmsched Deadline=+6h x",
    "slurmsched=ckpt",
    "x slurmsched = deadline=+6h",
    "slurmshed:ckpt",
    "Slurm-sched:off",
    "slurmsch:gpus=1-2",
)


@pytest.mark.parametrize("comment", [*NEAR_TOKENS, "slurmsched soft, ckpt", "slurmsched off ; mine"])
def test_a_token_in_the_wrong_case_or_with_a_blank_is_refused_and_not_passed_over(comment):
    [(answer, said)] = ask_lua([comment], uid=1000)
    assert (answer, "in small letters and without blanks" in said) == ("no", True)
    with pytest.raises(CommentError, match="in small letters and without blanks"):
        parse(comment)
    assert read(comment)[0] == SILENT


def test_what_is_in_the_past_is_named_with_the_time_it_is():
    texts = ["slurmsched:deadline=2020-01-01T00:00", "slurmsched:deadline=+6h,50@2020-01-01T00:00Z"]
    (_, deadline), (_, step) = ask_lua(texts, uid=1000)
    assert deadline == "slurmsched: 'deadline=2020-01-01T00:00' is in the past: it is 2026-10-01T12:00:00 here"
    assert step == "slurmsched: '50@2020-01-01T00:00Z' is in the past: it is 2026-10-01T12:00:00 here"


def test_a_refusal_repeats_no_control_characters_and_no_long_text():
    [(_, said)] = ask_lua(["slurmsched:\x1b[31m%s" + "é" * 500], uid=1000)
    assert said.isprintable()
    assert len(said) < 380


def test_only_root_and_the_daemon_write_share_tokens():
    assert ask_lua(["slurmsched:share=7"], uid=1000)[0][0] == "no"
    assert "only slurmsched writes it" in ask_lua(["slurmsched:share=7"], uid=1000, entry="modify")[0][1]
    assert ask_lua(["slurmsched:share=7"], uid=0)[0][0] == "yes"


def test_modify_checks_the_grammar_but_lets_an_old_deadline_be():
    old, bad, ambiguous = "slurmsched:deadline=2020-01-01T00:00", "slurmsched:x", "slurmsched:deadline=2026-10-25T02:30"
    assert [answer for answer, _ in ask_lua([old, bad, ambiguous], entry="modify", uid=1000)] == ["yes", "no", "no"]
    assert "is in the past" in ask_lua([old], uid=1000)[0][1]


@pytest.mark.parametrize("unit", ["slurmsched:", "a,", "slurmsched:ckpt;", "x", "slurmsched"])
def test_lua_reads_sixty_four_kilobytes_at_once(unit):
    assert len(ask_lua([("slurmsched:" + unit * 65536)[:65536]] * 5)) == 5  # within the time limit of ask_lua


def test_a_fault_of_our_own_lets_the_job_through(tmp_path):
    broken = tmp_path / "job_submit.lua"
    broken.write_text(SCRIPT.read_text().replace("said[key] = value", "said[key] = nil .. value"))
    asked = f"submit 1000 {b'slurmsched:ckpt'.hex()}\n"
    command = [str(LUA), str(HERE / "slurm_stub.lua"), str(broken), "1"]
    done = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=300)
    assert done.stdout.split() == ["yes"]
    assert "a fault in job_submit.lua" in done.stderr


def test_a_site_script_that_calls_ours_is_asked_second(tmp_path):
    site = tmp_path / "job_submit.lua"
    site.write_text(
        "function slurm_job_submit() slurm.log_user('the site says no') return slurm.ERROR end\n"
        "function slurm_job_modify() return slurm.SUCCESS end\n"
        f"dofile('{SCRIPT}')\nreturn slurm.SUCCESS\n"
    )
    ours, theirs = ask_lua(["slurmsched:x", "slurmsched:ckpt"], script=site, uid=1000)
    assert "not known" in ours[1]
    assert theirs == ("no", "the site says no")


def test_the_daemon_may_change_comments_that_are_not_its_to_judge(tmp_path):
    script = tmp_path / "job_submit.lua"  # the user "daemon", uid 1, stands in for ours
    script.write_text(SCRIPT.read_text().replace('DAEMON_USER = "slurmsched"', 'DAEMON_USER = "daemon"'))
    comment = "slurmsched:typo slurmsched:share=7"
    assert [ask_lua([comment], script=script, entry="modify", uid=uid)[0][0] for uid in (1, 2)] == ["yes", "no"]
