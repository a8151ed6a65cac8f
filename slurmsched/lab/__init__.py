"""A private, real Slurm on loopback, for tests, the demo and experiments."""

from __future__ import annotations

from slurmsched.lab.lab import Lab
from slurmsched.lab.spec import LabSpec
from slurmsched.lab.status import LabStatus, NodeStatus, ProcessStatus
from slurmsched.lab.waiting import wait_until

__all__ = ["Lab", "LabSpec", "LabStatus", "NodeStatus", "ProcessStatus", "wait_until"]
