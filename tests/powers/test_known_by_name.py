"""How far a power reaches: which files of the product know suspension by name."""

from __future__ import annotations

import re
from pathlib import Path

import slurmsched

PRODUCT = Path(slurmsched.__file__).parent
NAMES = re.compile(
    r"\b(Suspend|Resume)\b(?=[,()])"
    r"|\b(SuspensionRules|suspension|suspend_most_s|suspended_s|rested_s|paused_s|resumed: int)\b"
    r"|power\.suspend|powers[./]suspend|^    suspend\b",
    re.MULTILINE,
)
OWN = ("powers/suspend/", "cluster/actions/suspend.py")
SLURMS = {"slurm/adapters/fake.py", "simulator/simulated_cluster.py"}
"""A fake and a model of Slurm, which carry out what ``scontrol suspend`` asks for."""

KNOWING = {
    "cluster/actions/__init__.py": "the table of actions",
    "cluster/jobs.py": "its columns",
    "config/settings.py": "its switch and its setting",
    "decide/referee.py": "what may be suspended",
    "decide/rules.py": "its terms",
    "powers/__init__.py": "the list of powers",
    "slurm/write/release.py": "the count of jobs that go on",
    "slurm/write/verbs.py": "what is sent",
}
MOST = 8
"""Files outside of its own that a power may be known to."""


def test_suspension_is_known_by_name_to_few_files():
    files = {str(path.relative_to(PRODUCT)) for path in PRODUCT.rglob("*.py") if NAMES.search(path.read_text())}
    known = {name for name in files if not name.startswith(OWN)} - SLURMS
    assert known == set(KNOWING)
    assert len(known) <= MOST
