"""The demonstration: one burst of jobs under stock Slurm and again under slurmsched, on a private real Slurm."""

from __future__ import annotations

from slurmsched.demo.lab_burst import NoLab
from slurmsched.demo.show import FULL, QUICK, Demo, Shown
from slurmsched.demo.simulated import SimulatedDemo
from slurmsched.demo.summary import BurstSummary

__all__ = ["FULL", "QUICK", "Demo", "NoLab", "Shown", "SimulatedDemo", "BurstSummary"]
