"""What an admin can say, where it is said, and what is refused."""

from .files import DEFAULT_PATH, Loaded, load
from .settings import (
    MODES,
    SCOPES,
    DaemonSettings,
    DatabaseSettings,
    MetricsSettings,
    OrderSettings,
    PolicySettings,
    PowerSettings,
    Settings,
    SlurmSettings,
)

__all__ = [
    "DEFAULT_PATH",
    "MODES",
    "SCOPES",
    "DaemonSettings",
    "DatabaseSettings",
    "Loaded",
    "MetricsSettings",
    "OrderSettings",
    "PolicySettings",
    "PowerSettings",
    "Settings",
    "SlurmSettings",
    "load",
]
