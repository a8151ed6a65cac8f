"""``slurmsched check``."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NoReturn

import click

from ...daemon.validation import named_partitions, problems_of, unknown_partitions
from ...errors import SlurmError, SlurmschedError
from ..app import App
from ..output import emit, json_option

if TYPE_CHECKING:
    from ...slurm.checkup import Finding


@click.command()
@json_option
@click.pass_obj
def check(app: App, as_json: bool) -> None:
    """Report missing or wrong settings of Slurm and slurmsched, with the lines to add.

    Nothing is changed. Exit status 1 if anything is missing.
    """
    findings = [*_of_cluster(app), *_of_policy(app), *_of_points(app), *_of_database(app), _of_daemon(app)]
    report(findings, {}, as_json=as_json)


def report(
    findings: Sequence[Finding],
    facts: Mapping[str, Any],
    *,
    as_json: bool,
    bad: str = "missing",
    remedies: tuple[str, str] = ("add", "could add"),
) -> NoReturn:
    """Print *findings*, beside *facts* as JSON, and exit: with status 1 where any is *bad*.

    *remedies* introduce the remedy of a finding that is bad, and of one that need not be.
    """
    words = {True: "ok", False: bad, None: "-"}
    lines = []
    for finding in findings:
        lines.append(f"{words[finding.ok]:8} {finding.name}: {finding.text}")
        if finding.remedy and finding.ok is not True:
            lines.append(f"{'':8} {remedies[finding.ok is None]}: {finding.remedy}")
    failures = sum(finding.ok is False for finding in findings)
    lines.append(f"{failures} {bad}" if failures else f"nothing is {bad}")
    emit({bad: failures, "findings": [asdict(finding) for finding in findings], **facts}, *lines, as_json=as_json)
    sys.exit(1 if failures else 0)


def _of_cluster(app: App) -> list[Finding]:
    from ...slurm.checkup import Finding, checkup

    try:
        facts = app.cluster().facts()
    except SlurmschedError as error:
        return [Finding("Slurm", False, str(error), "[slurm] conf and bin_dir, in slurmsched.toml")]
    return [Finding("Slurm", True, f"cluster {facts.cluster} answers"), *checkup(facts, app.settings())]


def _of_policy(app: App) -> list[Finding]:
    from ...slurm.checkup import Finding

    settings = app.settings()
    if problems := [*problems_of(settings), *_of_partitions(app)]:
        return [Finding("settings", False, problem, "mend it in slurmsched.toml") for problem in problems]
    return [Finding("settings", True, f"the ordering is {settings.policy.ordering}")]


def _of_points(app: App) -> list[Finding]:
    from ...daemon.points_reach import points_reach

    try:
        facts = app.cluster().facts()
        return [points_reach(facts.config, app.cluster().observe(), app.settings())] if facts.multifactor else []
    except SlurmschedError:
        return []  # reported by another finding


def _of_partitions(app: App) -> list[str]:
    try:
        return unknown_partitions(app.settings(), app.partitions()) if any(named_partitions(app.settings())) else []
    except SlurmError:
        return []  # reported by another finding


def _of_database(app: App) -> list[Finding]:
    from ...slurm.checkup import Finding

    try:
        if not app.has_tables():
            text = (
                "it does not exist yet; the daemon makes it at its first start, and so does 'slurmsched history import'"
            )
            return [Finding("database", None, text)]
        place = app.store().place
    except SlurmschedError as error:
        return [Finding("database", False, str(error))]
    return [Finding("database", True, f"{place}: the tables fit this version")]


def _of_daemon(app: App) -> Finding:
    from ...slurm.checkup import Finding

    try:
        status = app.answers().query("status")
    except SlurmschedError:
        status = {"source": "nobody"}
    if status["source"] != "daemon":
        return Finding("daemon", None, "no daemon answers; Slurm decides alone", "systemctl start slurmsched")
    leads = "leads this cluster" if status["leader"] else "does not lead: another one does"
    text = f"pid {status['pid']} runs in mode {status['mode']} and {leads}"
    return Finding("daemon", not status["problem"], f"{text}; {status['problem'] or 'it is well'}", "see its log")
