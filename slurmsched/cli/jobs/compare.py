"""Variants of a new job side by side: ``slurmsched eta --compare`` and ``--suggest``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import click

from ..app import App
from ..output import emit
from ..query import QueryClient
from ..time_format import as_of, moment, span
from .arguments import all_options_of, not_understood_line

VARIANTS_MOST = 8
AS_ASKED = "as asked"

Answer = Mapping[str, Any]


def compare(
    app: App,
    options: str | None,
    script: BinaryIO | None,
    variants: Sequence[str],
    *,
    suggest: bool,
    as_json: bool,
) -> None:
    """Print when each variant of a job would start and be done, each as soon as it is known.

    The job of a *script*, and one without *variants*, comes first as asked; with *suggest* one follows with the limit
    and the memory that cover 95 % of such runs. A usage error where there are too many.
    """
    if len(variants) > VARIANTS_MOST:
        raise click.UsageError(f"--compare takes up to {VARIANTS_MOST} variants, these are {len(variants)}.")
    base = options or ""
    whole = [AS_ASKED] if script or not variants else []
    names = [*whole, *variants]
    texts = [*([base] if whole else []), *(f"{base} {variant}".strip() for variant in variants)]
    read = all_options_of(texts, script)
    answers, shown = app.answers(), []
    first: dict[str, Any] = {}
    for name, asked in zip(names, read, strict=True):
        reply, one = _ask(answers, asked)
        first = first or reply
        shown.append(one)
        _show(app, name, one, as_json=as_json)
    if suggest:
        shown += _suggested(app, answers, read[0], shown[0], as_json=as_json)
    if as_json:
        emit({**first, "eta": shown}, as_json=True)
        return
    for line in (*_best(names, shown[: len(names)]), first["coverage_words"]):
        click.echo(line)
    click.echo(as_of(first["as_of_s"], first["cycle"], app.clock.now()))


def _ask(answers: QueryClient, options: str) -> tuple[dict[str, Any], dict[str, Any]]:
    reply = answers.query("eta_check", options=options)
    return reply, reply["eta"][0]


def _show(app: App, name: str, one: Answer, *, as_json: bool) -> None:
    if as_json:
        return
    for line in _lines(name, one, app.clock.now()):
        click.echo(line)


def _lines(name: str, one: Answer, now_s: float) -> Iterator[str]:
    for line in not_understood_line(one["not_understood"]):
        yield f"{name}: {line}"
    if one["finish_s"] is None:
        yield f"{name}: its start and finish cannot be predicted. {' '.join(one['notes'])}".rstrip()
        return
    starts = _time(one["start_s"], now_s), _by(one["start_by_s"], now_s)
    done = _time(one["finish_s"], now_s), _by(one["finish_by_s"], now_s)
    yield f"{name}: starts about {starts[0]}{starts[1]}, done about {done[0]}{done[1]}."
    for note in one["notes"]:
        yield f"    {note}"


def _time(at_s: float, now_s: float) -> str:
    return moment(at_s, now_s) if at_s > now_s else "now"


def _by(at_s: float | None, now_s: float) -> str:
    return f" (by {moment(at_s, now_s)} nine times in ten)" if at_s else ""


def _best(names: Sequence[str], shown: Sequence[Answer]) -> Iterator[str]:
    """Say which variant starts first, and which is done first."""
    known = [(name, one) for name, one in zip(names, shown, strict=True) if one["finish_s"] is not None]
    if len(known) < 2:
        return
    start = min(known, key=lambda one: one[1]["start_s"])[0]
    done = min(known, key=lambda one: one[1]["finish_s"])[0]
    yield (
        f"Starts first and is done first: {start}." if start == done else f"Starts first: {start}; done first: {done}."
    )


def _suggested(app: App, answers: QueryClient, asked: str, one: Answer, *, as_json: bool) -> list[dict[str, Any]]:
    """Say what covers 95 % of such runs, and what that gains and risks; return the answer for it."""
    hint = one["suggestion"]
    lines, options = list(_hints(hint)), _options(hint)
    if not as_json:
        for line in lines:
            click.echo(line)
    if not options:
        return []
    _, other = _ask(answers, f"{asked} {options}")
    _show(app, options, other, as_json=as_json)
    if not as_json:
        for line in _gain(one, other):
            click.echo(line)
    return [other]


def _options(hint: Answer | None) -> str:
    """Return the limit and the memory of a suggestion as options of sbatch."""
    if hint is None:
        return ""
    limit = f"--time={round(hint['limit_s'] / 60)}" if hint["limit_s"] else ""
    memory = f"--mem={hint['memory_mib']}M" if hint["memory_mib"] else ""
    return f"{limit} {memory}".strip()


def _hints(hint: Answer | None) -> Iterator[str]:
    if hint is None:
        yield "What such runs need is not known: no history was read yet; ask again in a minute."
        return
    if hint["limit_s"] is None:
        yield "Too few runs are known to suggest a limit."
    else:
        cut = (
            f"; {hint['at_limit']} of these ended at their limit and would have needed more" if hint["at_limit"] else ""
        )
        covers = "" if hint["asked_covers"] is None else f" What you ask covers {hint['asked_covers']:.0%} of them."
        behind = f"{hint['limit_by']}, {hint['limit_runs']} of them"
        yield f"A limit of {span(hint['limit_s'])} covers 95 % of such runs ({behind}{cut}).{covers}"
        yield "The risk: one such run in twenty is stopped at this limit."
    if hint["use_runs"]:
        parts = [f"{hint['cpus']} CPUs"] if hint["cpus"] else []
        parts += [f"{hint['memory_mib'] / 1024:.4g} GiB of memory"] if hint["memory_mib"] else []
        runs = f"{hint['use_runs']} measured runs"
        yield f"{' and '.join(parts)} on a node cover what 95 % of {runs} used at most; CPUs are the mean of a run."
        if hint["memory_mib"]:
            yield "The risk: one such run in twenty needs more memory and is killed for it."


def _gain(one: Answer, other: Answer) -> Iterator[str]:
    if one["start_s"] is None or other["start_s"] is None:
        return
    sooner_s = one["start_s"] - other["start_s"]
    if sooner_s >= 60:
        yield f"The gain: it starts {span(sooner_s)} sooner."
    else:
        yield "It gains no start now, and leaves more to others."
