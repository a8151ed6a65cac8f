"""Imports point down only, and packages of one level never import each other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "slurmsched"

LEVELS = (
    {"errors"},
    {"clock", "config", "interpreter"},
    {"cluster"},
    {"slurm", "db", "models", "policies", "lab"},
    {"decide"},
    {"cycle"},
    {"daemon", "simulator"},
    {"demo"},
    {"cli"},
)
LEVEL = {part: level for level, parts in enumerate(LEVELS) for part in parts}
FREE = {"__init__", "__main__"}  # the package itself, and the way into it
ALONE = {"prolog", "job"}  # run on compute nodes, where slurmsched is not installed


def part_of(parts: tuple[str, ...]) -> str:
    """The first name below the package of a module path: its part."""
    return parts[0]


def imported_parts(source: str, module: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """Line and part of each import of ours in *source*; *module* is its path below the package."""
    package = module[:-1]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for name in node.names:
                below = name.name.split(".")
                if below[0] == "slurmsched":
                    yield node.lineno, below[1] if len(below) > 1 else "__init__"
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                base = package[: len(package) - (node.level - 1)]
                below = [*base, *(node.module.split(".") if node.module else [])]
            elif node.module and node.module.split(".")[0] == "slurmsched":
                below = node.module.split(".")[1:]
            else:
                continue
            yield from ((node.lineno, below[0] if below else name.name) for name in node.names)


def bad_imports(source: str, module: tuple[str, ...]) -> list[str]:
    """What *source* imports that it may not, in words."""
    importer = part_of(module)
    bad = []
    for line, imported in imported_parts(source, module):
        if imported in (importer, "__version__", *FREE) or importer in FREE:
            continue
        if importer in ALONE or LEVEL.get(imported, 99) >= LEVEL[importer]:
            bad.append(f"{'/'.join(module)}.py:{line} imports {imported}")
    return bad


def modules() -> Iterator[tuple[tuple[str, ...], str]]:
    for file in sorted(PACKAGE.rglob("*.py")):
        yield file.relative_to(PACKAGE).with_suffix("").parts, file.read_text()


def test_imports_point_down():
    assert [bad for module, source in modules() for bad in bad_imports(source, module)] == []


def test_every_part_has_a_level():
    parts = {part_of(module) for module, _ in modules()}
    assert parts - set(LEVEL) - FREE - ALONE == set()


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("cluster/jobs", "from ..slurm.port import Slurm"),
        ("cluster/jobs", "from .. import decide"),
        ("cluster/jobs", "import slurmsched.cli"),
        ("cluster/jobs", "from slurmsched import daemon"),
        ("slurm/command", "from ..db.store import Store"),
        ("slurm/command", "def f():\n    from ..models import port"),
        ("db/store", "if TYPE_CHECKING:\n    from slurmsched.cycle import Cycle"),
        ("cycle", "from .daemon import loop"),
        ("clock", "from .config import Settings"),
        ("db/upgrades/versions/one", "from ....slurm import port"),
        ("simulator/cluster", "from ..daemon.loop import Loop"),
        ("simulator/cluster", "from ..demo.show import Demo"),
        ("demo/show", "from ..cli.app import App"),
        ("prolog/sampler", "from ..errors import SlurmschedError"),
        ("models/runtime", "from ..policy import sjf"),
    ],
)
def test_a_bad_import_is_found(module, source):
    assert len(bad_imports(source, tuple(module.split("/")))) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        (
            "slurm/command",
            "from ..cluster.jobs import JobTable\nfrom .port import Slurm\nfrom ..errors import SlurmError",
        ),
        ("cycle", "from .decide import engine\nfrom . import slurm"),
        ("cli/app", "from .. import __version__\nfrom ..daemon import loop\nimport numpy"),
        ("db/upgrades/versions/one", "from alembic import op\nfrom ...tables import metadata"),
        ("demo/modelled", "from ..simulator.cluster import SimulatedCluster"),
        ("prolog/sampler", "import os\nfrom .record import Record"),
    ],
)
def test_a_good_import_is_not(module, source):
    assert bad_imports(source, tuple(module.split("/"))) == []
