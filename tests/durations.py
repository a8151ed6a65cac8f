"""What the tests of the last ``make test`` cost, and which failed: ``python -m tests.durations`` prints both.

A test costs what it and the processes that it waited for took of the processors: they bound the whole, since tests that
wait run beside others.

``--write`` puts the slowest ones into CONTRIBUTING.md. ``--fast`` chooses the files that ``make test-fast`` leaves out:
the slowest ones, until the rest takes no more than ``FAST_S`` seconds. ``--first`` chooses the files that begin: those
that take longest from their start to their end, so that no worker still has one when the others are done.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "build" / "tests"
PAGE = ROOT / "CONTRIBUTING.md"
SLOW = ROOT / "tests" / "slow_files.txt"
FIRST = ROOT / "tests" / "first_files.txt"
FAST_S = 240.0
LONG_S = 20.0
SHOWN = 20
SAID = 1500  # characters
_TABLE = re.compile(r"(?<=<!-- slowest tests -->\n).*?(?=<!-- end -->)", re.DOTALL)


def durations(results: Sequence[Path]) -> dict[tuple[str, str], float]:
    """Return what each test of JUnit files cost, by its file and its name; ValueError where there is no test."""
    found = {
        (_file(case), case.get("name", "")): float(_processor_s(case) or case.get("time", 0))
        for case in _cases(results)
    }
    if not found:
        raise ValueError("no results of tests: run make test")
    return found


def longest(results: Sequence[Path], least_s: float = LONG_S) -> list[str]:
    """Return the files of JUnit files that took *least_s* or more, waiting and all, the longest first."""
    sums: Counter[str] = Counter()
    for case in _cases(results):
        sums[_file(case)] += float(case.get("time", 0))
    return [file for file, seconds in sums.most_common() if seconds >= least_s]


def failures(results: Sequence[Path]) -> list[str]:
    """Return each test of JUnit files that failed or broke, and the end of what it said."""
    return [
        f"FAILED {_file(case)}::{case.get('name')}\n{(said.text or '')[-SAID:].strip()}\n"
        for case in _cases(results)
        for said in (*case.findall("failure"), *case.findall("error"))
    ]


def by_file(took_s: Mapping[tuple[str, str], float]) -> Counter[str]:
    """Return the seconds of each file."""
    sums: Counter[str] = Counter()
    for (file, _), seconds in took_s.items():
        sums[file] += seconds
    return sums


def left_out(sums: Mapping[str, float], most_s: float = FAST_S) -> list[str]:
    """Return the slowest files, as few as needed so that the rest takes at most *most_s* seconds."""
    rest_s, out = sum(sums.values()), []
    for file, seconds in Counter(sums).most_common():
        if rest_s <= most_s:
            break
        out.append(file)
        rest_s -= seconds
    return sorted(out)


def table(took_s: Mapping[tuple[str, str], float]) -> str:
    """Return the most expensive tests and files as a table of Markdown."""
    tests = sorted(took_s.items(), key=lambda item: -item[1])[:SHOWN]
    files = by_file(took_s).most_common(SHOWN)
    total_s = sum(took_s.values())
    rows = [
        f"{len(took_s)} tests took {total_s:.0f} s of processors. The dearest tests and files, in seconds:",
        "",
    ]
    rows += ["| test | s | file | s |", "|---|---|---|---|"]
    for ((_, name), seconds), (file, sum_s) in zip(tests, files, strict=False):
        rows.append(f"| `{name.replace('|', ' ')[:100]}` | {seconds:.0f} | `{file}` | {sum_s:.0f} |")
    return "\n".join([*rows, ""])


def _cases(results: Sequence[Path]) -> Iterator[ElementTree.Element]:
    for result in results:
        yield from ElementTree.parse(result).iter("testcase")


def _processor_s(case: ElementTree.Element) -> str | None:
    found = case.find("properties/property[@name='processor_s']")
    return None if found is None else found.get("value")


def _file(case: ElementTree.Element) -> str:
    return case.get("classname", "").replace(".", "/") + ".py"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="put the tables into CONTRIBUTING.md")
    parser.add_argument("--fast", action="store_true", help="choose the files that make test-fast leaves out")
    parser.add_argument("--first", action="store_true", help="choose the files that begin: the longest ones")
    arguments = parser.parse_args()
    results = sorted(RESULTS.glob("*.xml"))
    text = table(durations(results))
    if arguments.write:
        PAGE.write_text(_TABLE.sub(lambda found: text, PAGE.read_text()))
    if arguments.fast:
        files = left_out(by_file(durations([RESULTS / "others.xml"])))
        SLOW.write_text("".join(f"{file}\n" for file in files))
    if arguments.first:
        FIRST.write_text("".join(f"{file}\n" for file in longest(results)))
    print("\n".join([text, *failures(results)]))


if __name__ == "__main__":
    main()
