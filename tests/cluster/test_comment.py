from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slurmsched.cluster.text.comment import ACCEPTED, SILENT, CommentOptions, Stop, ValueStep, parse, read, render
from slurmsched.cluster.text.deadline_time import Deadline
from slurmsched.cluster.text.task_graph import TaskGraph
from slurmsched.errors import CommentError

BERLIN = ZoneInfo("Europe/Berlin")

GOOD = {
    "": SILENT,
    "someone else's text, deadline=tomorrow": SILENT,
    "myslurmsched:dedline=1 or my_slurmsched:x": SILENT,
    "slurmsched is what this site runs; see slurmsched.toml": SILENT,
    "slurmsched:ckpt": CommentOptions(ckpt=True),
    '{"team":"x"} slurmsched:ckpt; more': CommentOptions(ckpt=True),
    "(slurmsched:nopack;)": CommentOptions(nopack=True),
    "slurmsched:ckpt x slurmsched:nopack": CommentOptions(ckpt=True, nopack=True),
    "slurmsched:deadline=+6h": CommentOptions(deadline=Deadline(6 * 3600)),
    "slurmsched:deadline=+90m": CommentOptions(deadline=Deadline(90 * 60)),
    "slurmsched:deadline=+1d12h": CommentOptions(deadline=Deadline(36 * 3600)),
    "slurmsched:deadline=+2d3s": CommentOptions(deadline=Deadline(2 * 86400 + 3)),
    "slurmsched:deadline=2026-12-01T18:00": CommentOptions(deadline=Deadline(1796148000, "local")),
    "slurmsched:deadline=2026-12-01T18:00:05Z": CommentOptions(deadline=Deadline(1796148005, "epoch")),
    "slurmsched:deadline=2026-12-01T18:00+01:00": CommentOptions(deadline=Deadline(1796144400, "epoch")),
    "slurmsched:deadline=2026-12-01T18:00-09:30": CommentOptions(deadline=Deadline(1796182200, "epoch")),
    "slurmsched:soft,deadline=+1h": CommentOptions(deadline=Deadline(3600), soft=True),
    "slurmsched:80@+8h,50@+10h,deadline=+6h": CommentOptions(
        deadline=Deadline(6 * 3600),
        soft=True,
        steps=(ValueStep(0.8, Deadline(8 * 3600)), ValueStep(0.5, Deadline(10 * 3600))),
    ),
    "slurmsched:gpus=2-8": CommentOptions(gpus=(2, 8)),
    "slurmsched:gpus=4": CommentOptions(gpus=(4, 4)),
    "slurmsched:coldstart=300,amp,noprofile": CommentOptions(coldstart_s=300, amp=True, noprofile=True),
    "slurmsched:urgency=0": CommentOptions(urgency=0),
    "slurmsched:urgency=10,iterations=50000": CommentOptions(urgency=10, iterations=50000),
    "slurmsched:iterations=9,pace=0.25": CommentOptions(iterations=9, pace_s=0.25),
    "slurmsched:pace=7": CommentOptions(pace_s=7.0),
    "slurmsched:iterations=9,done=9": CommentOptions(iterations=9, done=9),
    "slurmsched:done=0": CommentOptions(done=0),
    "slurmsched:stop=never": CommentOptions(stop=Stop("never")),
    "slurmsched:stop=opt": CommentOptions(stop=Stop("opt")),
    "slurmsched:stop=acc:0.93": CommentOptions(stop=Stop("acc", 0.93)),
    "slurmsched:stop=acc:1": CommentOptions(stop=Stop("acc", 1.0)),
    "slurmsched:stop=loss:0.2%": CommentOptions(stop=Stop("loss", 0.002)),
    "slurmsched:stop=loss:12%": CommentOptions(stop=Stop("loss", 0.12)),
    "slurmsched:stop=opt,busy=acc:0.9": CommentOptions(stop=Stop("opt"), busy=Stop("acc", 0.9)),
    "slurmsched:busy=opt": CommentOptions(busy=Stop("opt")),
    "slurmsched:graph=chain:8": CommentOptions(graph=TaskGraph("chain", 8, 1)),
    "slurmsched:graph=layers:8x4": CommentOptions(graph=TaskGraph("layers", 8, 4)),
    "slurmsched:graph=replicas:16": CommentOptions(graph=TaskGraph("replicas", 1, 16)),
    "slurmsched:types=a100+v100": CommentOptions(types=("a100", "v100")),
    "slurmsched:types=1g.10gb": CommentOptions(types=("1g.10gb",)),
    "slurmsched:cpus=4-16": CommentOptions(cpus=(4, 16)),
    "slurmsched:cpus=8": CommentOptions(cpus=(8, 8)),
    "slurmsched:mem=16G-64G": CommentOptions(mem_mib=(16384, 65536)),
    "slurmsched:mem=900-1T": CommentOptions(mem_mib=(900, 1048576)),
    "slurmsched:mem=4000M": CommentOptions(mem_mib=(4000, 4000)),
    "slurmsched:batch=256-1024": CommentOptions(batch=(256, 1024)),
    "slurmsched:batch=64": CommentOptions(batch=(64, 64)),
    "slurmsched:off": CommentOptions(off=True),
}

#: comment -> words that the message must hold
BAD = {
    "slurmsched:": "names no key",
    "slurmsched: ckpt": "no blanks",
    "Slurmsched:nonsense": "'Slurmsched:nonsense' is not read; write slurmsched:",
    "x; slurmsched ckpt": "'slurmsched ckpt' is not read; write slurmsched:",
    "slurmsched:ckpt,": "names no key",
    "slurmsched:dedline=+6h": "did you mean deadline?",
    "slurmsched:frobnicate": "accepted: deadline=TIME, soft, PERCENT@TIME, gpus=MIN-MAX, ckpt",
    "slurmsched:Ckpt": "not known",
    "slurmsched:ckpt=yes": "ckpt takes none",
    "slurmsched:ckpt slurmsched:ckpt": "said twice",
    "slurmsched:gpus=1,gpus=2": "said twice",
    "slurmsched:deadline": "deadline takes a time",
    "slurmsched:deadline=": "deadline takes a time",
    "slurmsched:deadline=tomorrow": "2026-12-01T18:00",
    "slurmsched:deadline=+0h": "+90m",
    "slurmsched:deadline=+": "+90m",
    "slurmsched:deadline=+2h1d": "+1d12h",
    "slurmsched:deadline=+3651d": "+1d12h",
    "slurmsched:deadline=+1234567s": "+1d12h",
    "slurmsched:deadline=2026-12-01": "2026-12-01T18:00",
    "slurmsched:deadline=2026-02-29T18:00": "deadline takes a time",
    "slurmsched:deadline=2026-13-01T18:00": "deadline takes a time",
    "slurmsched:deadline=2026-12-01T24:00": "deadline takes a time",
    "slurmsched:deadline=2026-12-01T18:00:60": "deadline takes a time",
    "slurmsched:deadline=2026-12-01T18:00+15:00": "deadline takes a time",
    "slurmsched:deadline=2026-12-01T18:00 +01:00x slurmsched:deadline=+1h": "said twice",
    "slurmsched:soft": "add deadline=TIME",
    "slurmsched:80@+8h": "add deadline=TIME",
    "slurmsched:deadline=+6h,100@+8h": "1 to 99",
    "slurmsched:deadline=+6h,0@+8h": "1 to 99",
    "slurmsched:deadline=+6h,80@soon": "1 to 99",
    "slurmsched:deadline=+6h,80@+5h": "rise in time",
    "slurmsched:deadline=+6h,50@+8h,80@+9h": "fall in value",
    "slurmsched:gpus=8-2": "range such as 2-8",
    "slurmsched:gpus=0": "range such as 2-8",
    "slurmsched:gpus=2-": "range such as 2-8",
    "slurmsched:gpus=²": "range such as 2-8",
    "slurmsched:coldstart=1h": "whole seconds",
    "slurmsched:urgency=11": "0 to 10",
    "slurmsched:urgency=-1": "0 to 10",
    "slurmsched:urgency=٣": "0 to 10",
    "slurmsched:iterations=0": "1 to",
    "slurmsched:iterations=1e6": "1 to",
    "slurmsched:done=-1": "0 to",
    "slurmsched:iterations=9,done=10": "more than",
    "slurmsched:pace=0.0": "seconds above 0",
    "slurmsched:pace=1e1": "seconds above 0",
    "slurmsched:stop=acc:93": "acc:0.93",
    "slurmsched:stop=acc:1.01": "acc:0.93",
    "slurmsched:stop=loss:0.2": "loss:0.2%",
    "slurmsched:stop=loss:0%": "loss:0.2%",
    "slurmsched:stop=loss:100%": "loss:0.2%",
    "slurmsched:stop=later": "never, opt",
    "slurmsched:busy=never": "opt, or acc:",
    "slurmsched:busy=loss:1%": "opt, or acc:",
    "slurmsched:busy=acc:1.5": "opt, or acc:",
    "slurmsched:graph=chain:0": "layers:4x2",
    "slurmsched:graph=layers:4": "layers:4x2",
    "slurmsched:graph=layers:4x2x2": "layers:4x2",
    "slurmsched:graph=ring:4": "layers:4x2",
    "slurmsched:types=": "a100+v100",
    "slurmsched:types=a100+": "a100+v100",
    "slurmsched:types=+a100": "a100+v100",
    "slurmsched:types=a100+-x": "a100+v100",
    "slurmsched:types=a100|v100": "a100+v100",
    "slurmsched:cpus=": "4-16",
    "slurmsched:cpus=16-4": "4-16",
    "slurmsched:cpus=0-4": "4-16",
    "slurmsched:batch=": "256-1024",
    "slurmsched:batch=1024-256": "256-1024",
    "slurmsched:batch=0-256": "256-1024",
    "slurmsched:batch=256-100000": "256-1024",
    "slurmsched:mem=": "16G-64G",
    "slurmsched:mem=64G-16G": "16G-64G",
    "slurmsched:mem=16G-": "16G-64G",
    "slurmsched:mem=-16G": "16G-64G",
    "slurmsched:mem=16g": "16G-64G",
    "slurmsched:mem=16GB": "16G-64G",
    "slurmsched:mem=1G-2G-3G": "16G-64G",
    'slurmsched:ckpt"': "not known",
    "slurmsched:ckpt\x1b[31m": "'ckpt\\x1b[31m'",
}

PAST_S = st.integers(1, 315_360_000)
AT_S = st.integers(946_771_200, 7_000_000_000)
DEADLINES = st.one_of(
    st.builds(Deadline, PAST_S),
    st.builds(Deadline, AT_S, st.sampled_from(["epoch", "local"])),
)


@st.composite
def wishes(draw: st.DrawFn) -> CommentOptions:
    """Any wishes that a comment can say."""
    deadline = draw(st.none() | DEADLINES)
    steps: tuple[ValueStep, ...] = ()
    if deadline:
        percents = sorted(draw(st.sets(st.integers(1, 99), max_size=4)), reverse=True)
        steps = tuple(
            ValueStep(percent / 100, Deadline(deadline.at_s + 60 * place, deadline.since))
            for place, percent in enumerate(percents, 1)
            if deadline.at_s + 60 * place <= 315_360_000 or deadline.since != "submit"
        )
    iterations = draw(st.none() | st.integers(1, 10**12 - 1))
    fewest, more = draw(st.tuples(st.integers(1, 99), st.integers(0, 99)))
    losses = st.integers(1, 99_999).map(lambda thousandths: Stop("loss", thousandths / 1000 / 100))
    accuracies = st.integers(0, 10**10).map(lambda tens: Stop("acc", tens / 10**10))
    return CommentOptions(
        deadline=deadline,
        soft=bool(steps) or (deadline is not None and draw(st.booleans())),
        steps=steps,
        gpus=draw(st.sampled_from([None, (fewest, fewest + more)])),
        cpus=draw(st.sampled_from([None, (fewest, fewest + more)])),
        mem_mib=draw(st.sampled_from([None, (fewest, fewest + more), (fewest * 1024, 999_999_999 * 1024**2)])),
        **{flag: draw(st.booleans()) for flag in ("ckpt", "pack", "nopack", "noprofile", "amp", "off")},
        coldstart_s=draw(st.none() | st.integers(0, 86400)),
        urgency=draw(st.none() | st.integers(0, 10)),
        iterations=iterations,
        done=draw(st.none() | st.integers(0, iterations or 10**12 - 1)),
        pace_s=draw(st.none() | st.integers(1, 10**12 - 1).map(lambda millionths: millionths / 10**6)),
        stop=draw(st.none() | st.sampled_from([Stop("never"), Stop("opt")]) | accuracies | losses),
        share=draw(st.none() | st.from_regex(r"[A-Za-z0-9_.:+-]{1,64}", fullmatch=True)),
    )


@pytest.mark.parametrize("comment", GOOD)
def test_a_well_formed_comment_says_what_is_wished(comment):
    assert parse(comment) == GOOD[comment]


@pytest.mark.parametrize("comment", BAD)
def test_a_malformed_comment_is_refused_in_words_for_its_author(comment):
    with pytest.raises(CommentError) as refused:
        parse(comment)
    assert BAD[comment] in str(refused.value)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("comment", BAD)
def test_reading_never_raises_and_names_the_same_problem(comment):
    with pytest.raises(CommentError) as refused:
        parse(comment)
    assert read(comment)[1] == str(refused.value)


def test_well_formed_items_count_beside_malformed_ones():
    said, problem = read("slurmsched:gpus=x,ckpt,deadline=soon,soft,urgency=3")
    assert said == CommentOptions(ckpt=True, urgency=3)
    assert "'gpus=x'" in problem


def test_a_key_said_twice_counts_as_absent():
    assert read("slurmsched:gpus=1,gpus=2,gpus=3,ckpt")[0] == CommentOptions(ckpt=True)


def test_our_own_share_token_is_read():
    assert parse("their text slurmsched:share=412+413").share == "412+413"


@given(wishes())
def test_what_is_rendered_is_parsed_back(wished):
    assert parse(render(wished)) == wished


@given(wishes(), st.text(), st.text())
def test_text_around_a_token_does_not_matter(wished, before, after):
    before, after = before.replace("slurmsched", ""), after.replace("slurmsched", "")
    assert parse(f"{before} {render(wished)};{after}") == wished


ALPHABET = st.sampled_from("slurmsched: ,;=@+-.\0\x1b\n\udcff\u2028é０1dhTZ")
HOSTILE = st.lists(
    st.one_of(st.sampled_from(["slurmsched:", *BAD, *GOOD]), st.text(ALPHABET), st.text(), st.characters()), max_size=8
).map("".join)


@given(HOSTILE)
@example("slurmsched:gpus=\udcff\0")
def test_no_text_crashes_reading(comment):
    said, problem = read(comment)
    assert isinstance(said, CommentOptions)
    assert problem is None or problem.isprintable()


@pytest.mark.parametrize(
    "unit", ["slurmsched:", "a,", "8@", "9", "x slurmsched:", "slurmsched:ckpt;", "slurmsched", "=", "gpus=", "+1d"]
)
def test_sixty_four_kilobytes_are_read_at_once(unit):
    comment = ("slurmsched:" + unit * 65536)[:65536]
    started_s = time.process_time()
    read(comment)
    assert time.process_time() - started_s < 0.5


@pytest.mark.parametrize("comment", ["team=vision run 7", "tag slurmsched:deadline=+6h,ckpt", "slurmsched:dedline=+6h"])
def test_ten_thousand_comments_are_cheap(comment):
    started_s = time.process_time()
    for _ in range(10_000):
        read(comment)
    assert time.process_time() - started_s < 2.0


def test_a_relative_deadline_counts_from_the_first_submit():
    assert parse("slurmsched:deadline=+6h").deadline.resolve(1000.0, BERLIN) == 1000.0 + 6 * 3600


def test_a_local_deadline_means_the_zone_of_the_controller():
    local = parse("slurmsched:deadline=2026-07-01T18:00").deadline
    offset = parse("slurmsched:deadline=2026-07-01T18:00+02:00").deadline
    assert local.resolve(0.0, BERLIN) == offset.resolve(0.0, UTC) == local.resolve(0.0, UTC) - 7200


@pytest.mark.parametrize(
    ("text", "words"),
    [("2026-10-25T02:30", "happens twice in Europe/Berlin"), ("2026-03-29T02:30", "does not exist in Europe/Berlin")],
)
def test_a_local_time_that_daylight_saving_spoils_is_refused_with_the_offsets(text, words):
    with pytest.raises(CommentError, match=words) as refused:
        parse(f"slurmsched:deadline={text}").deadline.resolve(0.0, BERLIN)
    assert "+02:00" in str(refused.value)
    assert "+01:00" in str(refused.value)


def test_a_deadline_beyond_the_night_the_clock_changes_means_hours_or_the_clock_on_the_wall_as_it_was_written():
    for day, longer_h in (("2026-03-28", -1), ("2026-10-24", 1)):
        submitted = datetime.fromisoformat(f"{day}T20:00").replace(tzinfo=BERLIN)
        morning = submitted.replace(hour=0) + timedelta(days=1, hours=8)
        said = parse(f"slurmsched:deadline={morning:%Y-%m-%dT%H:%M}").deadline
        assert said.resolve(submitted.timestamp(), BERLIN) == submitted.timestamp() + (12 + longer_h) * 3600
        told = parse("slurmsched:deadline=+12h").deadline
        assert told.resolve(submitted.timestamp(), BERLIN) == submitted.timestamp() + 12 * 3600


@given(DEADLINES.filter(lambda deadline: deadline.since == "local"))
def test_a_local_time_is_refused_or_shows_on_the_wall(deadline):
    try:
        at_s = deadline.resolve(0.0, BERLIN)
    except CommentError:
        return
    assert datetime.fromtimestamp(at_s, BERLIN).replace(tzinfo=None).isoformat() == str(deadline)


DOCS = Path(__file__).parents[2] / "docs/writing-jobs.md"


def test_every_key_and_form_of_the_page_is_one_that_is_accepted():
    page = DOCS.read_text()
    for key in re.findall(r"[a-z]+(?==)|[a-z]+(?=,)|PERCENT@TIME|off$", ACCEPTED):
        assert re.search(rf"^\| `{key}\b", page, re.MULTILINE), key
    answers = "guaranteed|in-doubt|not-guaranteed"  # what AdminComment says, which nobody types
    examples = re.findall(rf"slurmsched:(?!{answers})[^\s`\"]+", page.replace("slurmsched:...", ""))
    assert len(examples) > 6
    for comment in examples:
        parse(comment)


def test_a_zone_without_a_name_is_called_here():
    with open("/usr/share/zoneinfo/Europe/Berlin", "rb") as rules:
        zone = ZoneInfo.from_file(rules)
    with pytest.raises(CommentError, match="happens twice here"):
        parse("slurmsched:deadline=2026-10-25T02:30").deadline.resolve(0.0, zone)
