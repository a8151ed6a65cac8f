"""The daemon on a host whose clock is wrong by as many seconds as a file says: wrong_clock.py CONFIG FILE."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from slurmsched.cli.app import App
from slurmsched.cli.daemon.build import PATIENCE_S, build
from slurmsched.cli.logs import log_to_stderr
from slurmsched.clock import SystemClock


@dataclass
class WrongClock(SystemClock):
    """A machine's clock that somebody sets."""

    file: Path

    def now(self) -> float:
        return super().now() + float(self.file.read_text())


if __name__ == "__main__":
    log_to_stderr("info", os.environ)
    build(App(sys.argv[1], clock=WrongClock(Path(sys.argv[2]))), patience_s=PATIENCE_S).service.run()
