"""The settings: their sources, their values and their validation."""

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
