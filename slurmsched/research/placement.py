"""The placements of Tiresias+ (Agarwal et al., EuroSys'24: Blox) and FGD (Weng et al., ATC'23), and one after FGD."""

from __future__ import annotations

from ..policies.placement import CONSOLIDATE, FILLED_GRADIENT, FIRST_FREE, GRADIENT, placement

_MEASURED = "As tiresias-skew, but what was measured of a kind of job counts, not what is declared (Tiresias+, Blox)."
placement("tiresias-plus", _MEASURED, CONSOLIDATE, FIRST_FREE, least_speed=0.95)

_FGD = "The node where one more of the jobs that run or wait then finds most of the free GPUs usable (FGD)."
placement("fgd", _FGD, GRADIENT, GRADIENT)
_FILLED = "As fgd, but for as many more jobs as the node holds."
placement("fgd-filled", _FILLED, FILLED_GRADIENT, FILLED_GRADIENT)
