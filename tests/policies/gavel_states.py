"""States of Gavel's cluster with the optima of two other solvers, and the throughputs of their jobs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from slurmsched.research.scaling.gavel import in_pairs
from slurmsched.research.scaling.gavel_programs import alone, useful

DATA = Path(__file__).parents[1] / "data"
STATES = json.loads((DATA / "gavel_vectors.json").read_text())
THROUGHPUTS = json.loads((DATA / "gavel_throughputs.json").read_text())


class GavelState:
    """The columns of a recorded state."""

    def __init__(self, number):
        self.facts = STATES[number]
        jobs, types = self.facts["jobs"], list(self.facts["gpus_of_type"])
        keys = [str((job["model"], job["gpus"])) for job in jobs]
        kinds = list(dict.fromkeys(keys))
        self.kind = np.array([kinds.index(key) for key in keys])
        self.gpus = np.array([job["gpus"] for job in jobs])
        self.weight, self.left, self.since_s = (
            np.array([float(job[name]) for job in jobs]) for name in ("weight", "steps_left", "since_s")
        )
        self.of_type = np.array([self.facts["gpus_of_type"][name] for name in types])
        self.throughput = np.array([[THROUGHPUTS[name][key]["null"] for name in types] for key in keys])
        self.beside = np.array(
            [[[THROUGHPUTS[name][one].get(two, (0, 0))[0] for name in types] for two in kinds] for one in kinds]
        )

    @property
    def alone(self):
        return alone(self.throughput, self.gpus)

    @property
    def packed(self):
        return useful(in_pairs(self.alone, self.kind, self.beside), self.throughput)
