"""``python -m tests.bench.report [RUNS] [--write FOLDER]``: what each form of a month's report costs, or its picture.

Both are of a simulated site. The picture needs chromium.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from slurmsched.cli.sheet_text import text_of
from slurmsched.cli.text_table import plain as plain_text
from slurmsched.cluster.records.scope import Scope
from slurmsched.daemon.api.query_handlers import plain
from slurmsched.db.store import Store
from slurmsched.report.csv_lines import csv_text
from slurmsched.report.page import page
from slurmsched.report.sheets import headline, sheets
from slurmsched.report.summary import summary

RUNS, TIMES = 100_500, 3
PICTURED = 6_000
TALL = 900  #: pixels of the picture


def text(answer: dict[str, Any]) -> str:
    """Return the report as the terminal shows it."""
    return "\n".join([headline(answer), *(plain_text(text_of(sheet)) for sheet in sheets(answer))])


FORMS: dict[str, Callable[[dict[str, Any]], str]] = {"json": json.dumps, "csv": csv_text, "html": page, "text": text}
CHOICES = {
    "user": Scope(user="u001"),
    "account": Scope(account="group1"),
    "partition": Scope(partition="vc0"),
    "job": Scope(job_id=2968),
}


def main(words: list[str]) -> None:
    """Print the row of the page on performance, or draw."""
    if "--write" in words:
        return draw(Path(words[words.index("--write") + 1]))
    bench(int(words[0]) if words else RUNS)
    return None


def bench(runs: int) -> None:
    """Time each form on all jobs, and each choice of jobs, from the database to the text; medians of TIMES."""
    with tempfile.TemporaryDirectory() as directory:
        store = saved(Path(directory), runs)
        try:
            for name, write in FORMS.items():
                row(f"all jobs, --{name}", store, Scope(), write)
            for name, of in CHOICES.items():
                row(f"--{name}", store, of, FORMS["text"])
        finally:
            store.close()


def row(name: str, store: Store, of: Scope, write: Callable[[dict[str, Any]], str]) -> None:
    """Print one row."""
    times = []
    for _ in range(TIMES):
        began_s, cpu_s = time.perf_counter(), time.process_time()
        answer = answer_of(store, of)
        written = write(answer)
        times.append((time.perf_counter() - began_s, time.process_time() - cpu_s))
    wall_s, used_s = (statistics.median(one) for one in zip(*times, strict=True))
    kb = len(written.encode()) / 1024
    print(f"{name}: {answer['total']['runs']:,} runs, {wall_s:.1f} s, CPU {used_s:.1f} s, {kb:.0f} KiB  target: 10 s")


def draw(folder: Path) -> None:
    """Write the picture of a page at 800 pixels."""
    browser = shutil.which("chromium")
    if browser is None:
        sys.exit("no chromium: apt-get install chromium")
    with tempfile.TemporaryDirectory() as directory:
        store = saved(Path(directory), PICTURED)
        file = Path(directory, "week.html")
        file.write_text(page(answer_of(store, Scope())), encoding="utf-8")
        store.close()
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size=800,{TALL}"]
        options += [f"--user-data-dir={directory}/profile", f"--screenshot={folder / 'report.png'}"]
        subprocess.run([browser, *options, f"file://{file}"], check=True, capture_output=True, timeout=120)


def saved(directory: Path, runs: int) -> Store:
    """Return a database with a month of so many jobs."""
    store = Store(f"sqlite:///{directory}/slurmsched.db")
    store.upgrade()
    from tests.report.site_month import site_month  # other benches are imported by tests, which have no package tests

    site_month(runs, seed=5).save(store, "site")
    return store


def answer_of(store: Store, of: Scope) -> dict[str, object]:
    """Return the report in its JSON form."""
    from tests.report.site_month import MONTH_S, NOW_S

    rows = store.report_rows("site", NOW_S - MONTH_S, NOW_S, of)
    report = summary(rows, of, cluster_name="site", since_s=NOW_S - MONTH_S, until_s=NOW_S)
    answer: dict[str, object] = plain(report)
    return answer


if __name__ == "__main__":
    main(sys.argv[1:])
