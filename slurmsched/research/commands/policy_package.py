"""The files of a new package with one part of a policy."""

from __future__ import annotations

import keyword
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from ...cli.failure import Failed
from ...errors import ConfigError
from ..conformance.judgement import REGISTRIES

NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
LONGEST = 40

_PYPROJECT = """\
[build-system]
requires = ["setuptools>=68"]
build-backend = "setuptools.build_meta"

[project]
name = "{name}"
version = "0.1.0"
description = "A part of policies of slurmsched: the {hook} {name}"
requires-python = ">=3.11"
dependencies = ["numpy>=1.26", "slurmsched"]

[project.optional-dependencies]
test = ["pytest"]

[project.entry-points."slurmsched.policies"]
{name} = "{module}"

[tool.setuptools]
py-modules = ["{module}"]
"""

_README = """\
# {name}

The {hook} `{name}` for slurmsched. Install it into the environment of slurmsched, check it, and try it:

    pip install ./{name}
    slurmsched policy check {name}
    {use}

`{module}.py` has the function, `test_{module}.py` its tests. Install it again after a change, and test it:

    pip install './{name}[test]'
    python -m pytest {name}

`docs/policies.md` of slurmsched describes what the function gets, and what it must not do.
"""

_TEST = '''\
"""Run this with pytest where slurmsched and this package are installed."""

from slurmsched.research.conformance.check import check


def test_it_meets_the_demands_on_every_part():
    findings = list(check(("{hook}",), "{name}", 100))
    assert findings
    assert [finding for finding in findings if not finding.passed] == []
'''

_ORDERING_TEST = '''\
"""Run this with pytest where slurmsched and this package are installed."""

import numpy as np

from slurmsched import find_ordering
from slurmsched.research.conformance.check import check
from slurmsched.research.conformance.random_views import jobs, view


def order(pending, runtimes_s=None):
    """Ids of the pending jobs, the one that runs soonest first."""
    key = find_ordering("{name}")(view(pending, runtimes_s))
    return pending.job_id[np.argsort(key, kind="stable")].tolist()


def test_the_job_that_was_submitted_first_comes_first():
    assert order(jobs(3, first_submit_s=[300.0, 100.0, 200.0])) == [2, 3, 1]


def test_it_meets_the_demands_on_every_part():
    findings = list(check(("{hook}",), "{name}", 100))
    assert findings
    assert [finding for finding in findings if not finding.passed] == []
'''

_ORDERING = '''\
"""An ordering: jobs in the order of their submission."""

import numpy as np

from slurmsched import ordering


@ordering("{name}")
def {module}(view):
    """Jobs in the order of their submission."""
    # One number per pending job, the smallest runs soonest. Often used: view.pending.gpus, .ran_s, .tasks, .user,
    # .first_submit_s, .deadline_s, view.forecast.runtime_s (NaN where unknown), view.now_s, view.running, view.nodes
    return np.asarray(view.pending.first_submit_s)
'''

_ADMISSION = '''\
"""An admission: a bound on the waiting jobs of each user that are considered."""

import numpy as np

from slurmsched import admission

MOST = 8


@admission("{name}")
def {module}(view):
    """Consider eight waiting jobs of each user, those that were submitted first."""
    # True for each pending job that is considered; the others wait outside.
    jobs = view.pending
    order = np.lexsort((jobs.job_id, jobs.first_submit_s, jobs.user.codes))
    users = jobs.user.codes[order]
    place = np.arange(len(jobs)) - np.searchsorted(users, users)  # among the jobs of the same user
    admitted = np.zeros(len(jobs), dtype=np.bool_)
    admitted[order] = place < MOST
    return admitted
'''

_SELECTION = '''\
"""A selection: whatever fits starts."""

from slurmsched import selection


@selection("{name}")
def {module}(view, order, nodes):
    """Whatever fits starts, in order."""
    # nodes.start(number) is True if the job found room. With @selection("{name}", preempts=True) the order has running
    # jobs too, and nodes.stop(number) lets one yield.
    for number in order.tolist():
        nodes.start(number)
'''

_PLACEMENT = '''\
"""A placement: a way of choosing nodes for jobs that spreading slows down, and one for all others.

The ways are those that slurmsched has: POOL, FIRST_FREE, CONSOLIDATE and QUASI of ``slurmsched.policies.placement``.
"""

from slurmsched.policies.placement import CONSOLIDATE, QUASI, placement

placement("{name}", "Consolidate jobs that spreading slows down; others where there is room.", CONSOLIDATE, QUASI)
'''

_PREEMPTION = '''\
"""A preemption: the running jobs that yield to promised ones."""

from bisect import bisect_left

import numpy as np

from slurmsched import preemption


@preemption("{name}")
def {module}(jobs, late):
    """The jobs that lose least, as few of them as keep all promises that can be kept."""
    # Rows of jobs, which has the columns job_id, lost_gpu_s and awaited. late(rows) counts the promised jobs that start
    # too late if these rows stop now.
    rows = np.lexsort((jobs.job_id, jobs.lost_gpu_s))
    fewest = late(rows)
    return rows[: bisect_left(range(len(rows) + 1), -fewest, key=lambda count: -late(rows[:count]))]
'''

_STOPPING = '''\
"""A stopping: the running jobs that may end before their time."""

import numpy as np

from slurmsched import stopping


@stopping("{name}")
def {module}(view):
    """Jobs that have the accuracy for which their owner said stop=acc."""
    # True for each running job that may end now, never sooner than its owner said: view.running.stop is the rule
    # (never, opt, acc, loss or empty), .stop_level its figure. view.progress has a row for each job that reported:
    # .job_id, .iteration, .accuracy and .loss_fall (NaN where unknown), and .settled for stop=opt.
    jobs, reports = view.running, view.progress
    accuracy = dict(zip(reports.job_id.tolist(), reports.accuracy.tolist(), strict=True))
    reached = np.array([accuracy.get(job, np.nan) for job in jobs.job_id.tolist()]) >= jobs.stop_level
    return reached & jobs.stop.map([rule == "acc" for rule in jobs.stop.names], np.bool_) & ~jobs.off
'''

_SCALING = '''\
"""A scaling: the GPUs of jobs that train, on each node."""

import numpy as np

from slurmsched.cluster.training import Allocations
from slurmsched import scaling


@scaling("{name}")
def {module}(view):
    """Each job has the GPUs it asks for, in order of submission; whatever fits runs."""
    # GPUs per job and node. Often used: view.jobs.gpus, .held, .most_gpus, .left, .served_gpu_s, .submit_s, view.now_s,
    # view.nodes.gpus; with @scaling("{name}", needs=["step_times"]) also view.step_times.seconds. A job whose GPUs
    # change is restarted, so one that has what it shall have keeps it.
    jobs = view.jobs
    gpus = np.where((jobs.held.sum(axis=1) == jobs.gpus)[:, None], jobs.held, 0)
    free = view.nodes.gpus - gpus.sum(axis=0)
    for job in np.flatnonzero(~gpus.any(axis=1)).tolist():
        wanted = int(jobs.gpus[job])
        if wanted > free.sum():
            continue
        for node in np.argsort(-free, kind="stable").tolist():
            taken = min(wanted, int(free[node]))
            gpus[job, node] = taken
            free[node] -= taken
            wanted -= taken
    return Allocations(gpus)
'''

_MODULES = {
    "ordering": (_ORDERING, "slurmsched simulate synthetic:2000 --nodes 8 --policy fifo --policy {name}"),
    "admission": (_ADMISSION, '# in the settings of the daemon: [policy] admission = "{name}"'),
    "selection": (_SELECTION, "slurmsched simulate synthetic:2000 --nodes 8 --policy sjf --set selection={name}"),
    "placement": (_PLACEMENT, "slurmsched simulate synthetic:2000 --nodes 8 --policy sjf --set placement={name}"),
    "preemption": (_PREEMPTION, '# in the settings of the daemon: [policy] preemption = "{name}"'),
    "stopping": (_STOPPING, '# in the settings of the daemon: [policy] stopping = "{name}"'),
    "scaling": (
        _SCALING,
        "slurmsched simulate TRACE --set applications=DIRECTORY --nodes 16x4 --policy {name}",
    ),
}
"""The module of a package for each hook, and the line with which it is used."""

HOOKS = tuple(_MODULES)


def write_package(hook: str, name: str, above: Path) -> Path:
    """Write the package *name* with a part of *hook* below *above*; ConfigError where the name is invalid or taken.

    The directory appears with all of its files or not at all.
    """
    directory = above / name
    _demand_free(hook, name, directory)
    try:
        made = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=above))
    except OSError as error:
        raise Failed(f"cannot write {directory}: {error.strerror}") from error
    try:
        for file, text in package_files(hook, name).items():
            (made / file).write_text(text)
        made.chmod(0o777 & ~_umask())
        os.mkdir(directory)  # fails where another process made one meanwhile
        made.rename(directory)
    except OSError as error:
        raise Failed(f"cannot write {directory}: {error.strerror}") from error
    finally:
        with suppress(FileNotFoundError):
            shutil.rmtree(made)
    return directory


def package_files(hook: str, name: str) -> Mapping[str, str]:
    """Return the texts of the files of a package, by file name."""
    module = name.replace("-", "_")
    text, use = _MODULES[hook]
    words = {"name": name, "module": module, "hook": hook, "use": use.format(name=name)}
    return {
        "pyproject.toml": _PYPROJECT.format(**words),
        "README.md": _README.format(**words),
        f"{module}.py": text.format(**words),
        f"test_{module}.py": (_ORDERING_TEST if hook == "ordering" else _TEST).format(**words),
    }


def _demand_free(hook: str, name: str, directory: Path) -> None:
    """Raise ConfigError unless *name* can be a package's, a module's and a part's, and nothing is in its place."""
    module = name.replace("-", "_")
    if not NAME.fullmatch(name) or len(name) > LONGEST or keyword.iskeyword(module):
        raise ConfigError(
            f"{name!r} is no name for a package: accepted are small letters, digits and single hyphens, a letter first,"
            f" at most {LONGEST} characters, and no word of Python"
        )
    if name in REGISTRIES[hook]:
        raise ConfigError(f"there is the {hook} {name!r} already")
    if find_spec(module) is not None:
        raise ConfigError(f"there is a Python module {module!r} already, which a package {name!r} would replace")
    if directory.exists() or directory.is_symlink():
        raise ConfigError(f"{directory} exists already")


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
