"""``python -m tests.bench.report [RUNS] [--write FOLDER]``: the cost of a report of 30 days, or its picture.

Both are of a simulated site. The picture needs chromium.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from slurmsched.cluster.records.scope import Scope
from slurmsched.daemon.api.query_handlers import plain
from slurmsched.db.store import Store
from slurmsched.report.page import page
from slurmsched.report.summary import summary

RUNS = 100_500
PICTURED = 6_000
TALL = 900  #: pixels of the picture


def main(words: list[str]) -> None:
    """Print the row of the page on performance, or draw."""
    if "--write" in words:
        return draw(Path(words[words.index("--write") + 1]))
    bench(int(words[0]) if words else RUNS)
    return None


def bench(runs: int) -> None:
    """Time a report on all jobs and one on a user, from the database to the page."""
    with tempfile.TemporaryDirectory() as directory:
        store = saved(Path(directory), runs)
        try:
            for name, of in (("all jobs", Scope()), ("one user", Scope(user="u001"))):
                began_s, cpu_s = time.perf_counter(), time.process_time()
                answer = answer_of(store, of)
                text = page(answer)
                took_s, cpu_s = time.perf_counter() - began_s, time.process_time() - cpu_s
                kb = len(text.encode()) / 1024
                print(
                    f"report of 30 days, {name}: {answer['total']['runs']:,} runs, {took_s:.1f} s, CPU {cpu_s:.1f} s, "
                    f"page of {kb:.0f} KiB"
                )
        finally:
            store.close()


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
