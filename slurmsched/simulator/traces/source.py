"""Sources: what another process needs to load the same trace."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ...cluster.text.plural import count
from ..workload.synthetic import SyntheticSpec, synthetic
from ..workload.synthetic_users import SyntheticUsers, semisynthetic
from ..workload.workload import workload
from .generated import spec_of
from .native import OWN, write
from .registry import read
from .trace import Note, Trace


@dataclass(frozen=True)
class Source:
    """A trace file, or a workload to generate."""

    name: str  #: for people
    path: str = ""  #: a file of jobs ...
    spec: SyntheticSpec | None = None  #: ... or the parameters to generate them
    format: str | None = None
    cpu_jobs: bool = False
    habits: SyntheticUsers | None = None  #: users, names and time limits to attach to the jobs of a file
    copied: Trace | None = field(default=None, repr=False, compare=False)  #: without jobs: the original of *path*

    @classmethod
    def of(
        cls,
        text: str,
        cluster_gpus: int,
        *,
        format: str | None = None,  # noqa: A002
        cpu_jobs: bool = False,
        habits: SyntheticUsers | None = None,
    ) -> Source:
        """Parse *text*: ``synthetic:JOBS[:LOAD]``, a TOML file with parameters, or a file of jobs."""
        spec = spec_of(text, cluster_gpus)
        if spec is None:
            return cls(text, text, format=format, cpu_jobs=cpu_jobs, habits=habits)
        return cls(text, spec=spec)

    @classmethod
    def copy(cls, name: str, trace: Trace, path: str) -> Source:
        """Write *trace*, which no other process could load, to *path*; TraceError where that fails."""
        write(trace.workload, path)
        return cls(name, path, format=OWN.name, cpu_jobs=True, copied=replace(trace, workload=workload(0)))

    @property
    def seed(self) -> int | None:
        """The default seed; None where nothing is random."""
        if self.spec is not None:
            return self.spec.seed
        return None if self.habits is None else 0

    def load(self, seed: int | None = None) -> Trace:
        """Load the jobs, generated from *seed* where anything is; TraceError where the file cannot be read."""
        seed = self.seed if seed is None else seed
        if self.spec is not None:
            jobs = synthetic(replace(self.spec, seed=seed or 0))
            text = f"synthetic: {count(len(jobs), 'job')} made up from seed {seed}"
            return Trace(jobs, (Note("synthetic", len(jobs), text),), "synthetic")
        trace = read(self.path, self.format, cpu_jobs=self.cpu_jobs)
        if self.copied is not None:
            return replace(self.copied, workload=trace.workload)
        if self.habits is None:
            return trace
        jobs = semisynthetic(trace.workload, self.habits, np.random.default_rng(seed))
        made = count(len(jobs), "job")
        text = f"semi-synthetic: users, names and time limits of {made} were made up from seed {seed}"
        return replace(trace, workload=jobs, notes=(*trace.notes, Note("semi-synthetic", len(jobs), text)))
