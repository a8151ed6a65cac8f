"""What users may write into names and comments, from sbatch to every screen: nothing crashes, nothing is misread."""

from __future__ import annotations

import os
import pty
import re
import subprocess

import pytest
from cli.fake_site import FakeSite, json_of, run
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from lab_site import Site

from examples import examples

NAMES = (
    "a|b||c",
    "two\nlines\r\n99999|root|gpu|RUNNING",
    "\x1b[31mred\x1b[0m\x1b]0;title\x07",
    "\x1froot\n99999\x1fGOOD",
    "not utf-8: \udcff\udcfe\udcc3",
    "[bold red]markup[/] [link=http://x]",
    "'; DROP TABLE jobs; --",
    '"quoted" `back` $(id) %s %(name)s {0} {name}',
    "right\u202eleft\u2066 and \u200b zero",
    "\u65e5\u672c\u8a9e \U0001f680 e\u0301",
    "tab\tvertical\x0bbell\x07back\x08\x7f\x9b31m",
    "-n 99 --flag",
    "~" + "x" * 1000,
)
COMMENTS = (
    "slurmsched:deadline=\x1b[2J",
    "slurmsched:ckpt,off,\nslurmsched:off",
    "slurmsched:" + "," * 900,
    "slurmsched:deadline=9999999999999-99-99",
    "'; DROP TABLE outcomes; --|\udcff\u202e",
)
OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b]")
"""What a terminal or a journal would act on, line ends aside."""
COMMANDS = (("queue",), ("status",), ("why", "{job}"), ("explain", "{job}"), ("story", "{job}"))


@pytest.fixture
def crowd(site: Site) -> dict[int, str]:
    """A full lab and a job of each name, with a comment."""
    site.fill()
    jobs = {}
    for number, name in enumerate(NAMES):
        comment = COMMENTS[number % len(COMMENTS)]
        job = site.lab.submit(f"--job-name={name}", f"--comment={comment}", "--gres=gpu:4", "-N4", "-t5", "--wrap=true",
                              "-o/dev/null", user="alice")  # fmt: skip
        jobs[job] = name
    return jobs


def printed(site: Site, *words: str) -> str:
    done = site.completed(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def on_a_terminal(site: Site, *words: str) -> str:
    """What a command writes to a terminal, colours and all."""
    ours, theirs = pty.openpty()
    environment = site.environment | {"TERM": "xterm-256color", "COLUMNS": "200", "LANG": "C.UTF-8"}
    with subprocess.Popen(
        site.argv(*words), env=environment, stdout=theirs, stderr=theirs, cwd=site.directory
    ) as shown:
        os.close(theirs)
        parts = []
        while part := _read(ours):
            parts.append(part)
        assert shown.wait(60.0) == 0
    os.close(ours)
    return b"".join(parts).decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other end is closed
        return b""


def test_hostile_jobs_are_told_as_they_are_and_obeyed_by_nobody(site, crowd):
    with site.daemon():
        site.until(lambda: site.said("status")["cycle"]["pending"] == len(crowd), "the queue")
        rows = {row["job_id"]: row for row in site.said("queue")["queue"]}
        assert {job: row["name"] for job, row in rows.items()} == crowd
        assert {row["user"] for row in rows.values()} == {site.lab.user("alice")}
        assert {(row["gpus"], row["partition"], row["tasks"]) for row in rows.values()} == {(16, "gpu", 1)}
        hostile = [job for job, name in crowd.items() if OBEYED.search(name)]
        for command, job in zip(COMMANDS, hostile, strict=False):
            words = [word.format(job=job) for word in command]
            assert not OBEYED.search(printed(site, *words)), words
        shown = on_a_terminal(site, "queue")
        assert "[bold red]markup" in shown
        assert not OBEYED.search(re.sub("\x1b\\[[0-9;]*m|\r", "", shown)), "only rich's own colours"
        assert "\x1b[31m" not in shown
        site.lab.run(["scancel", "--state=RUNNING"])
        wanted = {"COMPLETED"}
        site.until(lambda: {site.states()[job] for job in crowd} == wanted, "the end of them all", 120.0)
        site.until(lambda: len(outcomes(site, crowd)) == len(crowd), "their outcomes")
        assert outcomes(site, crowd) == crowd
        assert "Traceback" not in site.log
        assert not OBEYED.search(site.log)
    assert site.said("replay", str(site.said("status")["cycle"]))["identical"] is True
    demand_the_same_from_accounting(site, crowd)


def demand_the_same_from_accounting(site: Site, crowd: dict[int, str]) -> None:
    """An import finds the same jobs under the same names in sacct: nothing new."""
    asked = ["sacct", "-n", "-X", "-o", "state", "-j", ",".join(map(str, crowd))]
    site.until(lambda: site.lab.ask(asked).count("COMPLETED") == len(crowd), "them in sacct", 120.0)
    done = site.run("history", "import", "--days", "1")
    assert done.returncode == 0, done.stderr
    assert outcomes(site, crowd) == crowd
    kept = site.sql("SELECT count(*) FROM outcomes WHERE job_id BETWEEN ? AND ?", min(crowd), max(crowd))
    assert kept == [(len(crowd),)]


def outcomes(site: Site, crowd: dict[int, str]) -> dict[int, str]:
    with site.store() as store:
        table = store.history(site.lab.cluster)
    rows = zip(table.job_id.tolist(), table.name, strict=True)
    return {job: name for job, name in rows if job in crowd}


ANY_TEXT = st.text(st.characters(), max_size=30) | st.sampled_from(["x" * 70_000, "\x00", "\ud800", "json:", *NAMES])


@examples(10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(ANY_TEXT, min_size=6, max_size=6))
def test_no_text_at_all_breaks_a_command(tmp_path_factory, texts):
    app = FakeSite(tmp_path_factory.mktemp("site"))
    name, user, account, qos, comment, other = texts
    app.slurm.submit(5000.0, gpus=16, name=other, user=user)
    app.slurm.advance(1.0)
    job = app.slurm.submit(9.0, gpus=8, name=name, user=user, account=account, qos=qos, comment=comment)
    app.slurm.submit(5.0, gpus=8, name=other, user=user, comment=f"slurmsched:{comment}")
    app.clock.now_s = app.slurm.now_s
    try:
        for command in (("once",), ("once", "--dry-run"), *COMMANDS, ("release-all",)):
            words = [word.format(job=job) for word in command]
            for more in ([], ["--json"]):
                result = run(app, *words, *more)
                assert not OBEYED.search(result.output), words
        queue = json_of(app, "queue")["queue"]
        assert {row["name"] for row in queue if row["job_id"] == job} == {name}
    finally:
        app.close()
