"""Lines of the program by package: ``python -m tests.lines [COMMIT]`` counts them, and prints what they were at COMMIT.

They are those of the Python files under slurmsched that git tracks.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main(commits: list[str]) -> None:
    counts = [lines(), *map(lines, commits)]
    print(f"{'package':<12}", *(f"{name:>10}" for name in ("now", *commits)))
    for package in sorted({package for count in counts for package in count}):
        print(f"{package:<12}", *(f"{count[package]:>10,}" for count in counts))
    print(f"{'all':<12}", *(f"{count.total():>10,}" for count in counts))


def lines(commit: str = "") -> Counter[str]:
    """Return the lines of each package at *commit*; those in the working directory without one."""
    listed = ["ls-tree", "-r", "--name-only", commit, "slurmsched"] if commit else ["ls-files", "slurmsched"]
    files = [name for name in _git(*listed).decode().splitlines() if name.endswith(".py")]
    counted: Counter[str] = Counter()
    for name in files:
        if commit:
            text = _git("show", f"{commit}:{name}")
        else:
            text = (ROOT / name).read_bytes() if (ROOT / name).exists() else b""
        parts = name.split("/")
        counted[parts[1] if len(parts) > 2 else "."] += text.count(b"\n")
    return counted


def _git(*words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True).stdout


if __name__ == "__main__":
    main(sys.argv[1:])
