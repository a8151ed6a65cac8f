"""``slurmsched policy check`` and ``slurmsched policy new``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import click

from ...cli.failure import wrong_usage
from ...cli.output import Cell, TextTable, emit, json_option, table_options
from ...cluster.text.plural import count

if TYPE_CHECKING:
    from ..conformance.check import Finding
    from .answers import CheckedPart, Demand, FailedDemand, NewPart, PartsChecked

CHECKED = ("ordering", "admission", "selection", "placement", "preemption", "stopping", "scaling")
"""The hooks whose parts can be checked."""


@click.command()
@click.argument("words", nargs=-1, metavar="[NAME [PARAMETER=VALUE]...]")
@click.option("--hook", type=click.Choice(CHECKED), help="Check only parts of this hook.")
@click.option(
    "--views", type=click.IntRange(1, 100_000), default=1000, show_default=True, help="Random inputs of each demand."
)
@table_options
def check(words: Sequence[str], hook: str | None, views: int, as_json: bool) -> None:
    """Check that the part NAME of a policy keeps the rules; without NAME, the parts of all plug-ins.

    Each part is tried on random inputs, on a queue of 10,000 jobs, and for a simulated day, in processes of their own.
    Exit status 1 if a demand is not met.

    \b
        slurmsched policy check mylas
        slurmsched policy check wfq thresholds=3600,inf weights=2,1
    """
    from ..conformance.check import check as judged

    began_s = monotonic()
    with wrong_usage():
        findings = list(judged((hook,) if hook else CHECKED, " ".join(words), views))
    failed = [finding for finding in findings if not finding.passed]
    parts = list(dict.fromkeys((finding.hook, finding.part) for finding in findings if finding.part))
    facts: PartsChecked = {
        "failed": [_failure(finding) for finding in failed],
        "parts": [_checked(findings, one, part) for one, part in parts],
        "views": views,
        "seconds": round(monotonic() - began_s, 3),
    }
    table = TextTable(("PART", "HOOK", "DEMAND", "RESULT", "DETAIL"), [_row(finding) for finding in findings])
    emit(facts, *([table] if findings else []), _verdict(len(parts), failed), as_json=as_json)
    sys.exit(1 if failed else 0)


def _verdict(parts: int, failed: Sequence[Finding]) -> str:
    if failed:
        return f"{count(len(failed), 'demand')} not met"
    return f"{count(parts, 'part')} passed" if parts else "no plug-in is installed; name a part to check it"


def _row(finding: Finding) -> list[Cell]:
    result = "passed" if finding.passed else "FAILED"
    return [finding.part, finding.hook, finding.demand, result, finding.detail]


def _failure(finding: Finding) -> FailedDemand:
    return {"hook": finding.hook, "part": finding.part, "demand": finding.demand, "detail": finding.detail}


def _checked(findings: Sequence[Finding], hook: str, part: str) -> CheckedPart:
    demands: dict[str, Demand] = {
        finding.demand: {"passed": finding.passed, "detail": finding.detail}
        for finding in findings
        if (finding.hook, finding.part) == (hook, part)
    }
    return {"hook": hook, "part": part, "demands": demands}


@click.command()
@click.argument("name")
@click.option("--hook", type=click.Choice(CHECKED), default="ordering", show_default=True, help="The kind of part.")
@json_option
def new(name: str, hook: str, as_json: bool) -> None:
    """Write a package with a part of policies into the new directory NAME.

    It has a function to begin with, an entry point, tests and a README, and passes the check once it is installed:

    \b
        slurmsched policy new mylas
        pip install ./mylas
        slurmsched policy check mylas
    """
    from .policy_package import write_package

    with wrong_usage():
        directory = write_package(hook, name, Path.cwd())
    facts: NewPart = {
        "directory": str(directory),
        "hook": hook,
        "files": sorted(file.name for file in directory.iterdir()),
    }
    emit(facts, f"{directory} has the {hook} {name}; next: pip install ./{name}", as_json=as_json)
