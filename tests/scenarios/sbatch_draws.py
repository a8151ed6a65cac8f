"""Jobs for sbatch, drawn: their options in a script, in the environment and on the command line."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from slurmsched.cluster.text.sbatch_options import COUNTED, FLAGS, OPTIONAL, SHORT, VARIABLES

LETTERS = {name: letter for letter, name in SHORT.items()}
OF_VARIABLES = {name: variable for variable, name in VARIABLES.items() if variable.startswith("SBATCH_")}
RESERVATION, SECOND = "workshop", "short"


def one_word(text: str) -> st.SearchStrategy[str]:
    return st.sampled_from(text.split())


small = st.integers(1, 4).map(str)
gpus = st.one_of(
    small,
    small.map("a100:{}".format),
    small.map("3090:{}".format),
    st.sampled_from(
        ["3090:1,a100:2", "1,2", "a100=2", "1.5", "a100:1.5", "+2", "-1", "2x", "1k", "1g.10gb", "=1", "2,"]
    ),
)
memory = st.one_of(
    st.tuples(st.integers(0, 900).map(str), st.sampled_from(["", "m", "M", "MB", "mb"])).map("".join),
    st.sampled_from(["1g", "2G", "1gb", "3000k", "4000KB", "0", "1.5G", "1GiB", "-1", "lots", "1p"]),
)
times = st.one_of(
    st.integers(1, 5000).map(str),
    one_word("1:30 0:59 2:00:00 100:00:01 1- 1-2 1-2:3 1-2:3:4 0 -1 UNLIMITED infinite"),
    st.sampled_from(["1:2:3:4", "soon", "1-2-3", ":30", "1:", "5m", "", "-5", "-5:30"]),
)
begins = st.one_of(
    one_word("now+1hour now+90 now+2days now+30minutes tomorrow 16:00 23:59:59 11:30pm noon midnight"),
    one_word("2040-01-20T12:34:00 2040-01-20 01/20/40 0120 12/31 teatime 2020-01-01 now-1hour"),
    st.sampled_from(["16:00 tomorrow", "soon", "now+", "25:00"]),
)
VALUES: dict[str, st.SearchStrategy[str]] = {
    "account": st.sampled_from(["astro", "Bio", "physics"]),
    "array": st.sampled_from(["1-4", "0-9:3", "1,3,5", "2-7%2", "7", "[1-3]", "4-1", "x", "1-3:0", "1;2"]),
    "begin": begins,
    "comment": st.sampled_from(["a b", "it's", "x=1,y", "#1", 'say "hi"', "back\\slash", ""]),
    "constraint": st.sampled_from(
        ["ib", "fast&ib", "fast|ib", "[fast|ib]", "fast,ib", "none-such", "ib*2", "(fast|ib)&ib"]
    ),
    "cpus-per-gpu": small,
    "cpus-per-task": st.one_of(small, st.sampled_from(["0", "two", "9", "-1", " 2", "+2"])),
    "exclude": st.sampled_from(["n1", "n[2-3]", "n4,n3", "n9"]),
    "exclusive": st.sampled_from(["", "", "user", "mcs", "topo", "exclusive", "me"]),
    "gpus": gpus,
    "gpus-per-node": gpus,
    "gpus-per-socket": small,
    "gpus-per-task": gpus,
    "gres": st.one_of(
        gpus.map("gpu:{}".format),
        st.sampled_from(["gpu", "gpu:a100", "none", "gpu:", "gpu:0", "gpu:1,gpu:2"]),
    ),
    "hold": st.just(""),
    "job-name": st.sampled_from(["train", "big run", "a'b", "x#1", "-J", "hetjobs"]),
    "licenses": st.sampled_from(
        [
            "matlab",
            "matlab:2",
            "matlab:4",
            "matlab:5",
            "ansys",
            "matlab:0",
            "matlab:x",
            "matlab:1,foo",
            "matlab: +2",
            "matlab:2;matlab:3",
        ]
    ),
    "mem": memory,
    "mem-per-cpu": memory,
    "mem-per-gpu": memory.filter(lambda text: text.strip("mMbB") != "0"),  # refused or not, by the release
    "mincpus": small,
    "nodelist": st.sampled_from(["n1", "n[1-2]", "n2,n3,n2", "n[1-4]", "n9"]),
    "nodes": st.one_of(
        small,
        st.sampled_from(
            ["1-2", "2-4", "3-3", "2-", "-2", "4-2", "1k-2k", "x", "2 ", "1.5", "4-4", "1,3", "2-4:2", "-5:2"]
        ),
    ),
    "ntasks": st.one_of(st.integers(1, 20).map(str), st.sampled_from(["0", "x", "2.0"])),
    "ntasks-per-gpu": small,
    "ntasks-per-node": small,
    "overcommit": st.just(""),
    "oversubscribe": st.just(""),
    "partition": st.sampled_from(["gpu", SECOND, f"gpu,{SECOND}", f"{SECOND},gpu", "nowhere"]),
    "qos": st.sampled_from(["normal", "high", "low"]),
    "reservation": st.just(RESERVATION),
    "segment": one_word("1 2 3 4 0 -1 1k 70000"),
    "sockets-per-node": small,
    "switches": st.sampled_from(["1", "2", "1@2:00", "2@0:30", "3@60", "0", "x", "-1", "1@x", "2@"]),
    "threads-per-core": st.sampled_from(["1", "2"]),
    "time": times,
    "tmp": st.sampled_from(["0", "1", "1G", "2t", "1.5G", "much"]),
}
assert VALUES.keys() == COUNTED

OF_WORDS: dict[str, st.SearchStrategy[str]] = {
    "acctg-freq": one_word("30 task=30 task=30,energy=10 never task="),
    "batch": one_word("ib fast none-such"),
    "core-spec": one_word("0 1 +1 x -1 1x"),
    "cpu-freq": one_word(
        "low high low-high:performance 2000000 nosuch low-high high-low:performance 1x 0 low:performance"
    ),
    "deadline": one_word("now+9hours now-1hour soon 2040-01-01 2020-01-01 now+900hours"),
    "delay-boot": one_word("10 1:00 x 0"),
    "dependency": one_word(
        "singleton afterok:999999 afterany:999999:999998,after:999999+5 afternotok:999999?singleton "
        "afterok afterok:x before:5 singleton:x expand:999999 afterok:999999,"
    ),
    "distribution": one_word(
        "block cyclic:fcyclic *:* plane=1 plane=2 plane=4:cyclic Plane=3,Pack plane plane=0 nosuch "
        "block,Pack NoPack BLOCK block:nosuch arbitrary unknown"
    ),
    "extra-node-info": one_word("1 1:1:1 *:*:1 x 1:x -1"),
    "get-user-env": one_word("10L x S"),
    "gpu-bind": one_word(
        "closest none verbose single single:1 single:-1 per_task:1 per_task map_gpu:0,1 map:0 "
        "map_gpu:x mask_gpu:0x3 nosuch q"
    ),
    "gpu-freq": one_word("low high,memory=low verbose Low x 900"),
    "gres-flags": one_word("enforce-binding disable-binding enforce Enforce-Binding"),
    "hint": one_word("compute_bound memory_bound nosuch multithread"),
    "kill-on-invalid-dep": one_word("yes no YES maybe y"),
    "mail-type": one_word("END begin,fail ALL TIME_LIMIT_80,END END,FAILED NONE done ,END"),
    "nice": one_word("100 -100 2147483645 2147483646 99999999999"),
    "open-mode": one_word("append truncate a t x"),
    "prefer": one_word("none-such fast&none-such none-such|ib"),
    "priority": one_word("5 TOP -1 99999999999"),
    "propagate": one_word("ALL STACK,CORE none rlimit_core HEAP"),
    "signal": one_word(
        "USR1@60 B:TERM@120 10 SIGUSR2 R:USR1 XYZ@10 USR1@x 0@5 XCPU CHLD@9 USR1@ BB:USR1 :USR1 USR1@65536"
    ),
    "wait-all-nodes": one_word("0 1 2 yes"),
}
"""Options that change nothing of a job's size, and words for them that sbatch takes and that it refuses."""

COMMENTS = ("", "# a comment", "   # an indented one", "\t", "#PBX", "##SBATCH -N 4")
NOT_TRIED_OUT = (
    "#PBS -l nodes=2\n",
    "#PBS -N name\n#SBATCH -n 2\n",
    "#BSUB -n 4\n",
    "#SBATCH hetjob\n#SBATCH -n 2\n",
    "#SBATCH packjob\n",
)
"""Directives that we do not try out, whatever sbatch makes of them."""
PLACES = ("script", "environment", "command line")


@dataclass(frozen=True)
class Draft:
    """A job as a user writes it."""

    script: bytes
    environment: dict[str, str]
    argv: tuple[str, ...]
    placed: tuple[tuple[str, str], ...] = field(compare=False)  #: options with their places

    def of_release(self, known: Collection[str]) -> Draft:
        """This job without variables of options that a release does not know, which it ignores whatever they say."""
        variables = {OF_VARIABLES[name] for name, place in self.placed if place == "environment" and name in known}
        environment = {name: value for name, value in self.environment.items() if name in variables}
        return replace(self, environment=environment)

    def count(self, counts: Counter[tuple[str, str]]) -> None:
        counts.update(self.placed)


@st.composite
def drafts(draw: st.DrawFn) -> Draft:
    """Draw a job with up to six options, each in one of the places, in any of the forms that sbatch takes."""
    chosen = draw(st.lists(st.sampled_from(sorted(COUNTED)), min_size=1, max_size=6))
    if draw(st.integers(0, 3)) == 0:
        chosen.append(draw(st.sampled_from(sorted(OF_WORDS))))
    form = draw(st.randoms(use_true_random=False))
    argv: list[str] = []
    environment: dict[str, str] = {}
    lines: list[str] = []
    placed: list[tuple[str, str]] = []
    for name in chosen:
        value = draw((VALUES | OF_WORDS)[name])
        place = draw(st.sampled_from(PLACES))
        if place == "environment" and name in OF_VARIABLES:
            environment[OF_VARIABLES[name]] = value
        elif place == "script":
            words = _words(name, value, form)
            lines.append(f"#SBATCH{form.choice([' ', '  ', chr(9)])}{' '.join(_quoted(word, form) for word in words)}")
        else:
            place = "command line"
            argv += _words(name, value, form)
        placed.append((name, place))
    return Draft(_script(lines, form), environment, tuple(argv), tuple(placed))


def _script(lines: list[str], form: random.Random) -> bytes:
    """Return a script with these directives, and others that do not count behind its first command."""
    text = "#!/bin/bash\n"
    joined: list[str] = []
    for line in lines:
        if joined and form.random() < 0.2 and "#" not in joined[-1].removeprefix("#"):
            joined[-1] += " " + line.removeprefix("#SBATCH")
        else:
            joined.append(line)
    for line in joined:
        if form.random() < 0.4:
            text += form.choice(COMMENTS) + "\n"
        text += line + form.choice(["", "", " # why", "   "]) + "\n"
    if form.random() < 0.05:
        text += form.choice(["#SBATCH stray\n", *NOT_TRIED_OUT])
    return (text + "true\n#SBATCH -N 3 --gres=gpu:4\n").encode()


def _words(name: str, value: str, form: random.Random) -> list[str]:
    """Write an option in one of its forms."""
    letter = LETTERS.get(name)
    if name in FLAGS:
        return [f"-{letter}"] if letter and form.random() < 0.5 else [f"--{name}"]
    if name in OPTIONAL:
        return [f"--{name}={value}" if value else f"--{name}"]
    forms = [[f"--{name}={value}"], [f"--{name}", value]]
    if letter:
        forms += [[f"-{letter}", value], *([[f"-{letter}{value}"]] if value else [])]
    return form.choice(forms)


def _quoted(word: str, form: random.Random) -> str:
    """Write a word in a directive: with backslashes where no blank forbids it (releases differ there), or in quotes."""
    backslashed = "".join(f"\\{letter}" if letter in "\\\"'#" else letter for letter in word)
    inside = word.replace("\\", "\\\\").replace('"', '\\"')
    single = "'" + word.replace("\\", "\\\\").replace("'", "\\'") + "'"
    blank = not word or any(letter in word for letter in " \t")
    return form.choice([f'"{inside}"', single] if blank else [backslashed, backslashed, f'"{inside}"', single])
