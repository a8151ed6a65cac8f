"""Imports point down only, packages of one level never import each other, and inside no package there is a cycle."""

from __future__ import annotations

import pytest
from layers import STARTED, UNREACHED, cycle, imports, modules, reached, tree, units

LEVELS = (
    {"errors"},
    {"clock", "config", "extensions", "interpreter"},
    {"child_process", "cluster"},
    {"pages"},
    {"slurm", "db", "models", "policies", "lab"},
    {"decide", "report"},
    {"powers"},
    {"cycle", "explain"},
    {"daemon", "simulator"},
    {"foresee", "web"},
    {"demo"},
    {"cli"},
    {"research"},  # a guest: it uses all there is, and nobody imports it
)
LEVEL = {part: level for level, parts in enumerate(LEVELS) for part in parts}
FREE = {"__init__", "__main__"}  # the package itself, and the way into it
ALONE = {"prolog", "job"}  # run on compute nodes, where slurmsched is not installed


LINES_MOST = 450
LONG = {
    "decide/referee.py": "all that forbids an action, which security reads as a whole",
    "slurm/write/verbs.py": "every line that can reach scontrol, likewise",
    "job.py": "one file that users copy beside their programs",
    "prolog/sampler.py": "one file that is copied to nodes",
}
"""Modules that may be longer, and why."""


def bad_imports(source: str, module: tuple[str, ...]) -> list[str]:
    """What *source* imports that it may not, in words."""
    importer = module[0]
    bad = []
    for line, (imported, *_) in imports(source, module):
        if imported in (importer, "__version__", *FREE) or importer in FREE:
            continue
        if importer in ALONE or LEVEL.get(imported, 99) >= LEVEL[importer]:
            bad.append(f"{'/'.join(module)}.py:{line} imports {imported}")
    return bad


def test_imports_point_down():
    assert [bad for module, source in modules().items() for bad in bad_imports(source, module)] == []


PACKAGES = sorted(module[:-1] for module in modules() if module[-1] == "__init__")


@pytest.mark.parametrize("package", PACKAGES, ids="/".join)
def test_the_modules_of_a_package_import_each_other_without_a_cycle(package):
    assert cycle(units(package, modules())) == []


def test_every_module_is_reached_from_a_command_the_daemon_a_node_or_a_job():
    sources = {path: source for path, source in modules().items() if path[-1] != "__init__"}
    files = {f"{'/'.join(path)}.py" for path in sources}
    assert files - reached(modules(), STARTED) == set(UNREACHED)


def test_no_module_is_longer_than_a_reader_can_keep_in_mind():
    lengths = {f"{'/'.join(path)}.py": source.count("\n") for path, source in modules().items()}
    assert {file: lines for file, lines in lengths.items() if lines > LINES_MOST and file not in LONG} == {}


def test_what_nobody_imports_is_not_reached():
    sources = {
        ("cli", "__init__"): "from ..a import b",
        ("a", "__init__"): "",
        ("a", "b"): "def f():\n    from .d import e",
        ("a", "c"): "from .b import f",
        ("a", "d"): "WORKER = 'slurmsched.a.g'",
        ("a", "g"): "",
    }
    assert {f"{'/'.join(path)}.py" for path in sources} - reached(sources, ["cli"]) == {"a/c.py"}


def test_a_cycle_of_modules_and_packages_is_found():
    sources = {
        ("a", "__init__"): "from . import b",
        ("a", "b"): "from .c.d import f",
        ("a", "c", "__init__"): "",
        ("a", "c", "d"): "def f():\n    from ...a import e",
        ("a", "c", "g"): "from . import d",
        ("a", "e"): "NAME = 'slurmsched.a.b'",
        ("a", "h"): "from .b import x",
    }
    assert cycle(units(("a",), sources)) == ["b", "c", "e"]
    assert cycle(units(("a", "c"), sources)) == []


def test_the_tree_shows_every_package_and_its_docstring():
    lines = {name: text for name, _, text in (line.partition(": ") for line in tree()) if text}
    assert set(lines) == {".".join(("slurmsched", *package)) for package in PACKAGES}
    assert lines["slurmsched"] == "The scheduler brain for GPU clusters that run stock Slurm."


def test_every_part_has_a_level():
    parts = {module[0] for module in modules()}
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
        ("cli/app", "from ..research.pareto import search"),
        ("simulator/sweep", "def f():\n    from ..research.tasks.gangs import play_gangs"),
        ("demo/show", "from ..cli.app import App"),
        ("prolog/sampler", "from ..errors import SlurmschedError"),
        ("models/runtime", "from ..policy import sjf"),
        ("daemon/loop", 'WORKER = "slurmsched.foresee.prediction_worker"'),
        ("slurm/command", "import_module('slurmsched.db.store')"),
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
        ("cli/daemon/build", 'WORKER = "slurmsched.foresee.prediction_worker"'),
        ("cluster/jobs", 'raise ValueError("slurmsched.db is no file")\nADDRESS = "slurmsched.example.org:80"'),
    ],
)
def test_a_good_import_is_not(module, source):
    assert bad_imports(source, tuple(module.split("/"))) == []
