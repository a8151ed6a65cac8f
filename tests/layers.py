"""The modules of the package, what each imports, and in which order they stand.

``python -m tests.layers`` prints the packages, one line each, and the order of the modules in each; ``python -m
tests.layers core`` prints the lines of what a daemon can import, by package, and the modules that no daemon imports.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from configparser import ConfigParser
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "slurmsched"

NAMED_MODULES = {
    "cli/command_table.py": "the module of each command, imported when the command is called",
    "cli/daemon/build.py": "the command line of the prediction worker, a process of its own",
    "slurm/adapters/pyslurm_worker.py": "the command line of the process that holds pyslurm",
    "policies/registry.py": "the group of entry points of plug-ins, and the process that imports them first",
}
"""Files that name modules of ours in strings, and what for."""

FILE_NAMES = {"slurmsched.db", "slurmsched.sock", "slurmsched.toml"}
"""Strings of the same shape that name no module but a file."""

NOT_IMPORTED = {"cli/command_table.py"}
"""Files whose strings are no imports of theirs: a command is imported by its caller, which knows every part."""


def _registered() -> Iterator[str]:
    """Modules that entry points of ``setup.cfg`` name."""
    settings = ConfigParser()
    settings.read(PACKAGE.parent / "setup.cfg")
    for group, entries in settings["options.entry_points"].items():
        for line in entries.split("\n") if group != "console_scripts" else ():
            module = line.partition("=")[2].strip().partition(":")[0]
            if module:
                yield module.removeprefix("slurmsched.").replace(".", "/")


STARTED = ("cli/__init__", "__main__", "job", "prolog", "db/upgrades", *_registered())
"""Modules and folders that the world starts: commands, the helper of jobs, the programs of nodes, alembic's files, and
what entry points name."""

DAEMON = ("cli/daemon/run", "cli/daemon/build", "job", "prolog")
"""What runs on a cluster: the daemon, from which its workers follow, the helper of jobs, and the programs of nodes."""

APART = ("demo/", "lab/")
"""Not counted as core: what shows slurmsched, and the private Slurm."""

UNREACHED = {
    "cli/reference.py": "makes two pages of docs",
    "config/example.py": "makes the settings file of contrib",
    "slurm/adapters/fake.py": "the Slurm in memory on which plug-ins and commands are tried",
}
"""Files that no command, daemon, node program or job reaches, and why they are here."""

_MODULE = re.compile(r"slurmsched(\.[a-z_]\w*)+")


@cache
def modules(package: Path = PACKAGE) -> dict[tuple[str, ...], str]:
    """Sources by path below the package, as ("cluster", "jobs"); a package is ("cluster", "__init__")."""
    files = sorted(package.rglob("*.py"))
    return {file.relative_to(package).with_suffix("").parts: file.read_text("utf-8") for file in files}


@cache
def named_modules(source: str) -> tuple[tuple[int, str], ...]:
    """Line and text of each string in *source* that is a dotted name below the package."""
    return tuple(_named_modules(ast.parse(source))) if f"{PACKAGE.name}." in source else ()


def _named_modules(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and _MODULE.fullmatch(text) and text not in FILE_NAMES:
            yield node.lineno, text


@cache
def imports(source: str, module: tuple[str, ...]) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """Line and path below the package of each name of ours that *source* imports, or names in a string."""
    return tuple(_imports(source, module))


def _imports(source: str, module: tuple[str, ...]) -> Iterator[tuple[int, tuple[str, ...]]]:
    package = module[:-1]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for name in node.names:
                below = name.name.split(".")
                if below[0] == "slurmsched":
                    yield node.lineno, tuple(below[1:]) or ("__init__",)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                base = [*package[: len(package) - (node.level - 1)], *(node.module.split(".") if node.module else [])]
            elif node.module and node.module.split(".")[0] == "slurmsched":
                base = node.module.split(".")[1:]
            else:
                continue
            yield from ((node.lineno, (*base, name.name)) for name in node.names)
    if f"{'/'.join(module)}.py" not in NOT_IMPORTED:
        yield from ((line, tuple(text.split(".")[1:])) for line, text in named_modules(source))


def reached(sources: Mapping[tuple[str, ...], str], started: Iterable[str] = STARTED) -> set[str]:
    """Files of *sources* that those in *started* import, and those import in turn."""
    files = {"/".join(path): path for path in sources}
    found = {name for name in files for start in started if name == start or name.startswith(f"{start}/")}
    left = list(found)
    while left:
        path = files[left.pop()]
        named = ((line, tuple(text.split(".")[1:])) for line, text in named_modules(sources[path]))
        for _, name in (*imports(sources[path], path), *named):
            parts = {"/".join(name[:depth]) for depth in range(1, len(name) + 1)}
            new = (parts | {f"{part}/__init__" for part in parts}) & set(files) - found
            found |= new
            left += new
    return {f"{name}.py" for name in found}


def units(package: tuple[str, ...], sources: Mapping[tuple[str, ...], str]) -> dict[str, set[str]]:
    """What each module or subpackage of *package* imports of the others; ``__init__`` imports nothing here."""
    depth, graph = len(package), defaultdict[str, set[str]](set)
    inside = {path for path in sources if path[:depth] == package}
    names = {path[depth] for path in inside} - {"__init__"}
    for path in inside:
        if (unit := path[depth]) != "__init__":
            graph[unit] |= {
                name[depth]
                for _, name in imports(sources[path], path)
                if name[:depth] == package and len(name) > depth and name[depth] in names - {unit}
            }
    return dict(graph)


def order(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The units of *graph* in steps, each of which imports only earlier ones; ``CycleError`` where there is no such."""
    sorter, steps = TopologicalSorter(graph), []
    sorter.prepare()
    while sorter.is_active():
        steps.append(sorted(sorter.get_ready()))
        sorter.done(*steps[-1])
    return steps


def cycle(graph: Mapping[str, set[str]]) -> list[str]:
    """The units of one cycle in *graph*; none where there is none."""
    try:
        order(graph)
    except CycleError as error:
        return sorted(set(error.args[1]))
    return []


def tree() -> Iterator[str]:
    """Lines about each package: its name, its docstring's first line, and its modules in order."""
    sources = modules()
    for *package, last in sorted(sources):
        if last == "__init__":
            docstring = ast.get_docstring(ast.parse(sources[*package, last])) or ""
            yield f"{'.'.join(['slurmsched', *package])}: {docstring.partition(chr(10))[0]}"
            steps = order(units(tuple(package), sources))
            if steps:
                yield "    " + " < ".join(" ".join(step) for step in steps)


def core() -> dict[str, int]:
    """The lines of each file that a daemon can import."""
    sources = {path: source for path, source in modules().items() if f"{'/'.join(path)}.py" not in NOT_IMPORTED}
    lines = {f"{'/'.join(path)}.py": source.count("\n") for path, source in sources.items()}
    return {name: lines[name] for name in sorted(reached(sources, DAEMON)) if not name.startswith(APART)}


def counts() -> Iterator[str]:
    """Lines about the core by package, and about each module that no daemon imports."""
    inside, packages = core(), defaultdict[str, int](int)
    for name, count in inside.items():
        packages[name.rpartition("/")[0] or PACKAGE.name] += count
    yield f"{sum(inside.values()):6,} lines in {len(inside)} modules that a daemon can import:"
    yield from (f"{count:6,} {name}" for name, count in sorted(packages.items()))
    outside = {f"{'/'.join(path)}.py": source.count("\n") for path, source in modules().items()}
    outside = {name: count for name, count in outside.items() if name not in inside}
    yield f"{sum(outside.values()):6,} lines in {len(outside)} modules that no daemon imports:"
    yield from (f"{count:6,} {name}" for name, count in outside.items())


if __name__ == "__main__":
    print(*(counts() if sys.argv[1:] == ["core"] else tree()), sep="\n")
