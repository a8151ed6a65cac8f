"""Another root tree, mounted so that a lab can run its Slurm and leave it unchanged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from slurmsched.lab import chores
from slurmsched.lab.layout import Layout

#: the host's directories visible in the tree
HOST = (Path("/dev"), Path("/sys"))


def mount(layout: Layout, tree: Path, lab_id: str, record: Callable[[Path], None]) -> None:
    """Mount *tree* at the lab's root with the mounts that Slurm needs; *record* gets each point before it is mounted.

    The tree is the lower layer of an overlay, so it is never written to and two labs can share it.
    """
    upper, scratch = layout.overlay / "upper", layout.overlay / "scratch"
    for directory in (upper, scratch, layout.root):
        directory.mkdir(parents=True)
    layers = f"lowerdir={tree},upperdir={upper},workdir={scratch}"
    options = {
        layout.root: ["-t", "overlay", "overlay", "-o", layers],
        layout.root / "proc": ["-t", "proc", "proc"],
        **{layout.root / path.relative_to("/"): ["--bind", str(path)] for path in (*HOST, layout.directory)},
    }
    for point, how in options.items():
        point.mkdir(parents=True, exist_ok=True)
        record(point)
        chores.do(["mount", "--make-private", *how, str(point)], lab_id)


def unmount(points: list[str], lab_id: str) -> None:
    """Undo the mounts, last first; skip those that do not exist."""
    for point in reversed(points):
        while point in mounted_below(Path(point)):
            chores.do(["umount", point], lab_id)


def mounted_below(directory: Path) -> list[str]:
    """Return the mount points at or below *directory*."""
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    # The kernel writes blanks and backslashes as octal; a lab's directory contains none (see Layout).
    return [point for point in points if Path(point).is_relative_to(directory)]
