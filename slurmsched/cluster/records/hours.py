"""What a daemon counted in each hour: sums that no other record holds."""

from __future__ import annotations

from dataclasses import dataclass

from ..columns import FloatArray, Labels, Table, table_of

HOUR_S = 3600.0


@dataclass(frozen=True, eq=False)
class HourTable(Table):
    """Sums of hours, oldest first; ``slurmsched/daemon/hourly_counts.py`` says what is counted, and in which unit."""

    from_s: FloatArray  #: Unix time at which the hour began
    what: Labels
    account: Labels  #: empty where it is nobody's
    user: Labels
    value: FloatArray


NO_HOURS = table_of(HourTable, 0, {}, {})
"""No counts."""
