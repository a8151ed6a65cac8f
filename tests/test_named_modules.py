"""Modules and files that the program knows only by names in strings, settings and units are where the names say."""

from __future__ import annotations

import ast
import re
from configparser import ConfigParser
from importlib import import_module

import pytest
from layers import NAMED_MODULES, PACKAGE, modules, named_modules

from slurmsched.cli.command_table import COMMANDS
from slurmsched.cli.daemon.build import PREDICTION_WORKER
from slurmsched.db.schema import UPGRADES
from slurmsched.policies.registry import PLUGINS

ROOT = PACKAGE.parent

IMPORTED_BY_NAME = {
    "__init__.py": {"_PLACE_OF[name]"},
    "cli/lazy.py": {"place.module"},
    "job.py": {"'pytorch_lightning' if older else 'lightning.pytorch'", "'transformers'"},
    "policies/compiled.py": {
        *("'numba'", "'numba.core.caching'", "'numba.core.config'", "'numba.core.typing.typeof'"),
    },
    "prolog/mps.py": {"'mps_faults'", "'sampler'"},
    "prolog/probe.py": {"'pynvml'", "'sampler'"},
    "prolog/sampler.py": {"'amd'", "'amdsmi'", "'pynvml'"},
    "prolog/watch.py": {"'pynvml'", "'sampler'"},
    "research/pareto/search.py": {"f'pymoo.{module}'"},
    "simulator/traces/native.py": {"'pyarrow'", "'pyarrow.parquet'"},
    "simulator/worker_pool.py": {"'joblib.externals.loky.process_executor'", "module"},
}
"""What each file imports by ``import_module``: other packages, the file beside it, or modules of the command table."""

PACKAGE_DATA = re.compile(r"data/[\w.]+")
"""Files of the package that code opens by their name."""


def sources():
    return {f"{'/'.join(module)}.py": source for module, source in modules().items()}


def exists(name):
    path = PACKAGE.joinpath(*name.split(".")[1:])
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def strings(source):
    tree = ast.parse(source)
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def settings():
    parser = ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


def test_only_the_listed_files_name_modules_in_strings_and_each_module_is_there():
    named = {file: {name for _, name in named_modules(source)} for file, source in sources().items()}
    assert {file for file, names in named.items() if names} == set(NAMED_MODULES)
    assert {name for names in named.values() for name in names if not exists(name)} == set()
    assert PLUGINS == "slurmsched.policies"


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_is_in_its_module(command):
    entry = COMMANDS[command]
    assert callable(getattr(import_module(entry.module), entry.attribute))


@pytest.mark.parametrize(
    "module",
    [PREDICTION_WORKER, "slurmsched.slurm.adapters.pyslurm_process", "slurmsched.job", "slurmsched.cli.reference"],
)
def test_each_module_that_is_run_by_its_name_is_a_program(module):
    source = PACKAGE.joinpath(*module.split(".")[1:]).with_suffix(".py").read_text("utf-8")
    assert 'if __name__ == "__main__":' in source


def test_documents_and_scripts_run_modules_that_are_there():
    places = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "Makefile")]
    places += [path for folder in ("docs", "contrib", "scripts", "systemd") for path in (ROOT / folder).rglob("*")]
    texts = [path.read_text("utf-8", "replace") for path in places if path.is_file()]
    run = {name for text in texts for name in re.findall(r"-m ((?:slurmsched|tests)(?:\.[a-z_]+)*)", text)}
    assert "slurmsched.job" in run
    missing = {name for name in run if name.startswith("slurmsched") and not exists(name)}
    for name in run:
        if name.startswith("tests"):
            path = ROOT.joinpath(*name.split("."))
            missing |= set() if path.with_suffix(".py").is_file() or (path / "__main__.py").is_file() else {name}
    assert missing == set()


def test_modules_are_imported_by_name_only_in_the_listed_places():
    found = {}
    for file, source in sources().items():
        for node in ast.walk(ast.parse(source)) if "import_module" in source else ():
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
                found.setdefault(file, set()).add(ast.unparse(node.args[0]))
    assert found == IMPORTED_BY_NAME


def test_programs_of_the_prolog_find_each_other_in_their_folder():
    prolog = PACKAGE / "prolog"
    assert (prolog / "sampler.py").is_file()
    named = {text for file in prolog.glob("*.py") for text in strings(file.read_text("utf-8")) if text.endswith(".py")}
    assert "deliver.py" in named
    assert {name for name in named if not (prolog / name).is_file()} == set()


def test_the_upgrades_of_the_database_are_one_file_each_in_their_folder():
    versions = sorted(file.stem for file in (UPGRADES / "versions").glob("v*.py"))
    assert (UPGRADES / "env.py").is_file()
    assert [int(name[1:5]) for name in versions] == list(range(1, len(versions) + 1))


def test_every_file_of_package_data_that_code_names_is_there():
    opening = [source for source in sources().values() if "data/" in source]
    named = {text for source in opening for text in strings(source) if PACKAGE_DATA.fullmatch(text)}
    assert len(named) >= 2
    assert {name for name in named if not (PACKAGE / name).is_file()} == set()


@pytest.mark.parametrize(
    ("section", "folder"), [("options.package_data", PACKAGE), ("options.data_files", ROOT)], ids=["package", "shared"]
)
def test_every_file_that_an_installation_takes_along_is_there(section, folder):
    patterns = [line for value in settings()[section].values() for line in value.split()]
    assert patterns
    assert [pattern for pattern in patterns if not list(folder.glob(pattern))] == []


def test_the_entry_point_and_the_version_are_where_setup_says():
    place, _, attribute = settings()["options.entry_points"]["console_scripts"].partition("=")[2].strip().partition(":")
    assert callable(getattr(import_module(place), attribute))
    module, _, name = settings()["metadata"]["version"].removeprefix("attr: ").rpartition(".")
    assert isinstance(getattr(import_module(module), name), str)


def test_units_call_commands_that_there_are():
    lines = [line for unit in (ROOT / "systemd").glob("*.service") for line in unit.read_text("utf-8").splitlines()]
    calls = [
        line.partition("slurmsched ")[2].split() for line in lines if line.startswith("Exec") and "slurmsched " in line
    ]
    words = [call[2:] if call[0] == "--config" else call for call in calls]
    assert len(words) >= 4
    assert {first for first, *_ in words} <= set(COMMANDS)


def test_slurm_is_told_of_programs_of_the_prolog_that_there_are():
    text = (ROOT / "contrib" / "slurm.conf.d" / "profiling.conf").read_text("utf-8")
    programs = re.findall(r"^\w+log=/usr/lib/slurmsched/(\w+)$", text, re.MULTILINE)
    assert set(programs) == {"prolog", "epilog", "taskprolog"}
    assert [name for name in programs if not (PACKAGE / "prolog" / name).is_file()] == []
