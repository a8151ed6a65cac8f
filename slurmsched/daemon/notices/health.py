"""The state of the daemon in words that admins should hear."""

from __future__ import annotations

from ...explain.eta import Coverage
from ..daemon_status import DaemonStatus
from ..predictions.prediction_service import JUDGED
from .events import Health


def health_of(status: DaemonStatus, coverage: Coverage | None, band: tuple[float, float]) -> Health:
    """Return what is wrong with the daemon; *band* is the accepted share of jobs that end by their predicted time."""
    problem = "; ".join(filter(None, (status["problem"], status["degraded"])))
    away = status["database_trouble"] or "the database does not answer"
    return Health(
        degraded=problem,
        database="" if status["database_available"] else away,
        accuracy=_accuracy(coverage, band),
    )


def _accuracy(coverage: Coverage | None, band: tuple[float, float]) -> str:
    if coverage is None or coverage.finishes < JUDGED or band[0] <= coverage.done_by <= band[1]:
        return ""
    low, high = (f"{share:.0%}" for share in band)
    return (
        f"Of the {coverage.finishes} jobs that ended in the last {coverage.days:g} days {coverage.done_by:.0%} ended "
        f"by the time predicted for nine in ten; accepted are {low} to {high} (predict.least, predict.most)."
    )
