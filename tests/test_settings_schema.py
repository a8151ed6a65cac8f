"""The JSON Schema of the settings accepts what the daemon accepts."""

from __future__ import annotations

import json

import jsonschema
import pytest
from click.testing import CliRunner

from slurmsched.cli import main
from slurmsched.config.catalogue import InvalidValue, Setting, every_setting

SCHEMA = json.loads(CliRunner().invoke(main, ["config", "schema"]).output)
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
VALUES = (True, -1, 0, 1, 7, 10**9, 0.25, 90.5, "", "text", [], ["text"], [1], {})


def accepts(setting: Setting, value: object) -> bool:
    try:
        setting.check(value)
    except InvalidValue:
        return False
    return True


def test_it_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert VALIDATOR.is_valid({})


@pytest.mark.parametrize("setting", list(every_setting()), ids=lambda setting: setting.name)
def test_a_value_is_valid_where_the_daemon_accepts_it(setting):
    choices = setting.rules.get("choices", ())
    bounds = [setting.rules[bound] for bound in ("least", "most") if bound in setting.rules]
    for value in (*VALUES, *choices, list(choices), *bounds):
        assert VALIDATOR.is_valid({setting.section: {setting.key: value}}) == accepts(setting, value), value


@pytest.mark.parametrize("found", [{"daemons": {}}, {"daemon": {"modes": "act"}}, {"daemon": 1}])
def test_unknown_keys_are_not_valid(found):
    assert not VALIDATOR.is_valid(found)
