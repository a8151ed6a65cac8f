"""``slurmsched models``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...errors import ModelUnusable
from ..app import App
from ..failure import Failed, NotFound
from ..guests import GuestGroup
from ..output import Cell, TextTable, emit, table_options

if TYPE_CHECKING:
    from ...daemon.api.record_summaries import ModelInFull, ModelWithImportances
    from ...models.artifact import Artifact
    from ..json_answers import ModelComparison

KINDS = ("runtime", "throughput", "sharing", "actor")
SHOWN = 20  #: terms in the text
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group(cls=GuestGroup, guests_under="models")
def models() -> None:
    """Show trained models and what they are based on."""


@models.command("list")
@table_options
@click.pass_obj
def list_(app: App, as_json: bool) -> None:
    """List all models, with their data, scores and digests."""
    facts = app.answers().query("models")
    cells: list[list[Cell]] = [
        [row["kind"], row.get("data", row.get("unusable")), _digest(row)] for row in facts["models"]
    ]
    emit(facts, TextTable(("MODEL", "DATA", "DIGEST"), cells), as_json=as_json)


@models.command()
@click.argument("name", type=click.Choice(KINDS))
@table_options
@click.pass_obj
def show(app: App, name: str, as_json: bool) -> None:
    """Show the model NAME: data, scores, most important inputs and rules."""
    from ...daemon.api.record_summaries import facts_of
    from ...models.model_card import model_card

    card = model_card(_serving(app, name))
    facts: ModelInFull = {
        **facts_of(card.artifact),
        "importances": card.importances,
        "calibration": dict(card.calibration),
        "text": card.text,
    }
    parts: list[str | TextTable] = [f"{name}: trained on {facts['data']}, digest {card.artifact.digest}"]
    parts.append(
        TextTable(("SCORE", "VALUE"), [[key, float(f"{value:.4g}")] for key, value in facts["scores"].items()])
    )
    if card.calibration:
        parts.append(
            "held-out runs below the bounds: " + ", ".join(f"{s:.1%} for {p}" for p, s in card.calibration.items())
        )
    for target, terms in card.importances.items():
        rows: list[list[Cell]] = [[term, float(f"{weight:.4g}")] for term, weight in [*terms.items()][:SHOWN]]
        parts.append(TextTable((f"TERM OF {target.upper()}", "IMPORTANCE"), rows))
    parts += card.text.splitlines()
    emit(facts, *parts, as_json=as_json)


@models.command()
@click.argument("name", type=click.Choice(KINDS))
@click.option(
    "--html", "path", type=click.Path(dir_okay=False, path_type=Path), required=True, help="The page to write."
)
@click.pass_obj
def plot(app: App, name: str, path: Path) -> None:
    """Draw the model NAME as a self-contained page: shapes, importances, rules and calibration."""
    from ...models.model_card import model_card

    page = model_card(_serving(app, name)).page()
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise Failed(f"writing the page {path}: {error.strerror}") from error
    click.echo(f"{path}: the {name} model")


@models.command()
@click.argument("first", type=FILE)
@click.argument("second", type=FILE)
@table_options
def compare(first: Path, second: Path, as_json: bool) -> None:
    """Compare two model files of one kind: data, scores and importances."""
    from ...daemon.api.record_summaries import facts_of
    from ...models.artifact import Artifact
    from ...models.model_card import model_card

    kind = _kind_of(first)
    cards = [model_card(Artifact.read(path, kind)) for path in (first, second)]
    facts: list[ModelWithImportances] = [{**facts_of(one.artifact), "importances": one.importances} for one in cards]
    names = dict.fromkeys(name for one in facts for name in one["scores"])
    rows: list[list[Cell]] = [[name, *(_short(one["scores"].get(name)) for one in facts)] for name in names]
    for target in dict.fromkeys(name for one in cards for name in one.importances):
        terms = dict.fromkeys(term for one in cards for term in one.importances.get(target, {}))
        rows += [
            [f"{target}: {term}", *(_short(one.importances.get(target, {}).get(term)) for one in cards)]
            for term in [*terms][:SHOWN]
        ]
    heads = [
        f"{path}: {kind}, trained on {one['data']}, digest {one['digest']}"
        for path, one in zip((first, second), facts, strict=True)
    ]
    both: ModelComparison = {"first": facts[0], "second": facts[1]}
    emit(both, *heads, TextTable(("", "FIRST", "SECOND"), rows), as_json=as_json)


def _serving(app: App, name: str) -> Artifact:
    from ...daemon.api.record_summaries import serving_model

    if name != "sharing" and app.artifacts().stamp(name) is None:
        raise NotFound(f"there is no {name} model in {app.artifacts().directory}; try: slurmsched train --model {name}")
    return serving_model(app.artifacts(), name)


def _digest(facts: dict[str, Any]) -> str | None:
    digest = facts.get("digest")
    return digest[:12] if digest else None


def _short(value: float | None) -> Cell:
    return None if value is None else float(f"{value:.4g}")


def _kind_of(path: Path) -> str:
    """Return the kind that the file states; reading it as that kind checks the rest."""
    try:
        kind = json.loads(path.read_bytes())["kind"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelUnusable(f"{path} is not a model that slurmsched wrote") from error
    if kind not in KINDS:
        raise ModelUnusable(f"{path} holds a model of kind {kind!r}; accepted are {', '.join(KINDS)}")
    return str(kind)
