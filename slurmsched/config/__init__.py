"""What an admin can say, where it is said, and what is refused."""

from .files import DEFAULT_PATH, Loaded, Unreadable, load
from .settings import (
    BACKENDS,
    MODES,
    SCOPES,
    DaemonSettings,
    DatabaseSettings,
    DeadlineSettings,
    ForecastSettings,
    MetricsSettings,
    OrderSettings,
    PolicySettings,
    PowerSettings,
    ProfileSettings,
    Settings,
    ShareSettings,
    SlurmSettings,
)

__all__ = [
    "BACKENDS",
    "DEFAULT_PATH",
    "MODES",
    "SCOPES",
    "DaemonSettings",
    "DatabaseSettings",
    "DeadlineSettings",
    "ForecastSettings",
    "Loaded",
    "MetricsSettings",
    "OrderSettings",
    "PolicySettings",
    "PowerSettings",
    "ProfileSettings",
    "Settings",
    "ShareSettings",
    "SlurmSettings",
    "Unreadable",
    "load",
]
