"""The programs a lab runs, found on the host or in another root tree."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from slurmsched.errors import LabError
from slurmsched.lab.spec import LabSpec

USERS = ("useradd", "userdel", "setpriv")
SLURM = ("munged", "slurmctld", "slurmd", "scontrol", "squeue", "sinfo", "sbatch", "scancel")
ACCOUNTING = ("slurmdbd", "sacctmgr", "sacct")
DATABASE = ("mariadbd", "mariadb-install-db", "mariadb", "mariadb-admin")

#: daemons are in sbin, which is not on every user's PATH
SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin", "/opt/slurm/sbin")
BEYOND_PATH = (*SBIN, "/opt/slurm/bin", "/usr/local/bin", "/usr/bin", "/bin")


def search_path() -> str:
    """Return PATH without entries that depend on the working directory, plus the directories of daemons."""
    places = [place for place in os.environ.get("PATH", "").split(os.pathsep) if os.path.isabs(place)]
    return os.pathsep.join(dict.fromkeys([*places, *BEYOND_PATH]))


def find(name: str, root: Path | None = None) -> str | None:
    """Return the path of *name* as seen from inside *root*; None when it is not installed there."""
    if root is None:
        return shutil.which(name, path=search_path())
    places = (Path(place) / name for place in BEYOND_PATH)
    return next((str(place) for place in places if os.path.lexists(root / place.relative_to("/"))), None)


def slurm_release(root: str | None) -> tuple[int, ...]:
    """Return Slurm's release, as ``(22, 5, 8)``; it determines the allowed configuration."""
    argv = ["slurmctld", "-V"] if root is None else ["chroot", root, "slurmctld", "-V"]
    try:
        output = subprocess.run(
            argv, capture_output=True, text=True, timeout=10, env={"PATH": search_path()}, cwd="/", check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LabError(f"{' '.join(argv)} failed: {error}") from error
    if found := re.search(r"(\d+)\.(\d+)\.(\d+)", output):
        return tuple(int(part) for part in found.groups())
    raise LabError(f"{' '.join(argv)} said {output.strip()!r}, which holds no release")


def require(names: Iterable[str], root: Path | None = None) -> None:
    """Raise `LabError` that lists every missing program, the directories searched and how to install it."""
    wanted = tuple(names)
    missing = [name for name in wanted if find(name, root) is None]
    if not missing:
        return
    into = f" in {root}" if root else ""
    places = ":".join(BEYOND_PATH) if root else search_path()
    raise LabError(
        f"a lab needs {', '.join(wanted)}; missing{into}: {', '.join(missing)} (looked in {places})."
        " On Debian and Ubuntu: apt-get install slurm-wlm slurmdbd slurm-wlm-basic-plugins munge mariadb-server;"
        " elsewhere see https://slurm.schedmd.com/quickstart_admin.html."
        " Without slurmdbd or MariaDB use --no-accounting"
    )


def check(spec: LabSpec) -> None:
    """Raise `LabError` that describes anything that this machine or this user lacks for *spec*."""
    root = Path(spec.slurm_root) if spec.slurm_root is not None else None
    if os.geteuid() != 0:
        if root is not None:
            raise LabError(
                f"the Slurm of {root} is run through mount and chroot, which takes root; without, use the host's"
            )
        if spec.accounting:
            raise LabError("a lab with accounting needs root (unix users, MariaDB's own user); use --no-accounting")
    if root is not None and not root.is_dir():
        raise LabError(f"there is no root tree at {root}")
    require([*SLURM, *(ACCOUNTING if spec.accounting else ())], root)
    require(
        [
            *(USERS if os.geteuid() == 0 else ()),
            *(DATABASE if spec.accounting else ()),
            *(("chroot", "mount") if root else ()),
        ]
    )
