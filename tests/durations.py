"""What the tests of the last ``make test`` cost, and which failed: ``python -m tests.durations`` prints both.

A test costs what it and the processes that it waited for took of the processors: they bound the whole, since tests that
wait run beside others.

``--write`` puts the slowest ones into CONTRIBUTING.md. ``--fast`` chooses the files that ``make test-fast`` leaves out:
the slowest ones, until the rest takes no more than ``FAST_S`` seconds.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "build" / "tests"
PAGE = ROOT / "CONTRIBUTING.md"
SLOW = ROOT / "tests" / "slow_files.txt"
FAST_S = 240.0
SHOWN = 20
SAID = 1500  # characters
_TABLE = re.compile(r"(?<=<!-- slowest tests -->\n).*?(?=<!-- end -->)", re.DOTALL)


def durations(results: Sequence[Path]) -> dict[tuple[str, str], float]:
    """Return what each test of JUnit files cost, by its file and its name; ValueError where there is no test."""
    found = {
        (_file(case), case.get("name", "")): float(_processor_s(case) or case.get("time", 0))
        for result in results
        for case in ElementTree.parse(result).iter("testcase")
    }
    if not found:
        raise ValueError("no results of tests: run make test")
    return found


def failures(results: Sequence[Path]) -> list[str]:
    """Return each test of JUnit files that failed or broke, and the end of what it said."""
    return [
        f"FAILED {_file(case)}::{case.get('name')}\n{(said.text or '')[-SAID:].strip()}\n"
        for result in results
        for case in ElementTree.parse(result).iter("testcase")
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


def _processor_s(case: ElementTree.Element) -> str | None:
    found = case.find("properties/property[@name='processor_s']")
    return None if found is None else found.get("value")


def _file(case: ElementTree.Element) -> str:
    return case.get("classname", "").replace(".", "/") + ".py"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="put the tables into CONTRIBUTING.md")
    parser.add_argument("--fast", action="store_true", help="choose the files that make test-fast leaves out")
    arguments = parser.parse_args()
    results = sorted(RESULTS.glob("*.xml"))
    text = table(durations(results))
    if arguments.write:
        PAGE.write_text(_TABLE.sub(lambda found: text, PAGE.read_text()))
    if arguments.fast:
        files = left_out(by_file(durations([RESULTS / "others.xml"])))
        SLOW.write_text("".join(f"{file}\n" for file in files))
    print("\n".join([text, *failures(results)]))


if __name__ == "__main__":
    main()
