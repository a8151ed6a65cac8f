"""What setup.cfg says of versions is what `make test-lowest` installs."""

from __future__ import annotations

import ast
import configparser
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPT = runpy.run_path(str(ROOT / "scripts/lowest-versions"))


def test_everything_we_need_has_one_lower_bound():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    bounds = SCRIPT["lowest"](SCRIPT["requirements"](setup))
    assert {"click", "numpy", "numba", "psycopg", "pytest"} <= set(bounds)


@pytest.mark.parametrize("lines", [["click"], ["click<9"], ["click>=8.1", "click>=8.2"]])
def test_a_missing_or_second_bound_is_an_error(lines):
    with pytest.raises(ValueError, match="click"):
        SCRIPT["lowest"](iter(lines))


def test_no_class_of_click_gets_type_arguments_which_only_its_latest_releases_take():
    found = [
        f"{path.relative_to(ROOT)}:{base.lineno}"
        for path in (ROOT / "slurmsched/cli").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for base in (node.bases if isinstance(node, ast.ClassDef) else ())
        if isinstance(base, ast.Subscript) and ast.unparse(base).startswith("click.")
    ]
    assert found == []
