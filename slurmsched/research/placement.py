"""The placement of Tiresias+ (Agarwal et al., EuroSys'24: Blox)."""

from __future__ import annotations

from ..policies.placement import CONSOLIDATE, FIRST_FREE, placement

_MEASURED = "As tiresias-skew, but what was measured of a kind of job counts, not what is declared (Tiresias+, Blox)."
placement("tiresias-plus", _MEASURED, CONSOLIDATE, FIRST_FREE, least_speed=0.95)
