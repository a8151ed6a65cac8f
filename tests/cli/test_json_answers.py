"""The schemas of what commands print with ``--json``; other tests hold the answers that they get to them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import click
import jsonschema
import pytest
from click.testing import CliRunner
from json_forms import answer_of, command_of

from slurmsched.cli import main
from slurmsched.cli.json_answers import answer_schema, forms
from slurmsched.cli.json_schema import schema_of


def with_json(command: click.Command, path: tuple[str, ...]) -> Iterator[str]:
    """The commands that print JSON, by their names."""
    if isinstance(command, click.Group):
        context = click.Context(command, **main.context_settings)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from with_json(child, (*path, name))
    elif any("--json" in option.opts for option in command.params):
        yield " ".join(path)


def test_every_command_that_prints_json_has_a_schema():
    assert set(with_json(main, ())) == set(forms())


@pytest.mark.parametrize("command", forms())
def test_each_is_a_schema_that_every_answer_of_another_form_fails(command):
    schema = json.loads(CliRunner().invoke(main, ["schema", *command.split()]).output)
    assert schema == answer_schema(command)
    jsonschema.Draft202012Validator.check_schema(schema)
    for wrong in ([], {}, {"schema": "slurmsched/1"}, {"schema": "slurmsched/2"}):
        assert not jsonschema.Draft202012Validator(schema).is_valid(wrong)


def test_the_list_names_them_and_another_name_is_refused():
    assert CliRunner().invoke(main, ["schema"]).output.splitlines() == forms()
    result = CliRunner().invoke(main, ["schema", "pause"])
    assert result.exit_code == 2
    assert "'pause' prints no JSON" in result.stderr


class Inner(TypedDict):
    """Inner."""

    at_s: float


@dataclass(frozen=True)
class Outer:
    """An object."""

    name: str
    kind: Literal["a", "b"]
    inner: tuple[Inner, ...]
    rest: dict[str, int | None]


GOOD: dict[str, Any] = {
    "name": "x",
    "kind": "a",
    "inner": [{"at_s": 1.5}, {"at_s": None}],
    "rest": {"one": 1, "no": None},
}


@pytest.mark.parametrize(
    "change",
    [{"name": 1}, {"kind": "c"}, {"inner": [{"at_s": "1"}]}, {"inner": [{}]}, {"inner": {}}, {"rest": {"one": 1.5}}],
)
def test_a_value_of_another_type_fails(change):
    validator = jsonschema.Draft202012Validator(schema_of(Outer, closed=True))
    assert validator.is_valid(GOOD)
    assert not validator.is_valid(GOOD | change)
    assert not validator.is_valid(GOOD | {"more": 1})
    assert jsonschema.Draft202012Validator(schema_of(Outer)).is_valid(GOOD | {"more": 1})


def test_a_type_that_json_does_not_have_is_an_error():
    with pytest.raises(TypeError, match="has no form in JSON"):
        schema_of(set[int])


def test_an_answer_of_another_form_is_found_out():
    assert command_of(["--config", "f", "policy", "--all", "show"]) == "policy show"
    answer = '{"schema": "slurmsched/1", "compiled": true, "kept": null, "took_s": 1.0%s}'
    assert answer_of(["warm-up"], answer % "")["compiled"] is True
    with pytest.raises(AssertionError, match="warm-up"):
        answer_of(["warm-up"], answer % ', "more": 1')
