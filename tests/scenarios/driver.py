"""The daemon as ``slurmsched run`` puts it together, killed on entering a phase: driver.py CONFIG CYCLE PHASE [SIGNAL].

CYCLE counts from 1 at the start of the process; a phase that does not come is waited for in the cycles that follow.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from dataclasses import replace

from slurmsched.cli.app import App
from slurmsched.cli.daemon.build import PATIENCE_S, build
from slurmsched.cli.logs import log_to_stderr


class Doom:
    """Ends this process at one moment of its life."""

    cycle_to_die, phase_to_die = int(sys.argv[2]), sys.argv[3]
    fate = signal.Signals[sys.argv[4]] if len(sys.argv) > 4 else signal.SIGKILL
    begun = 0

    def entering(self, phase: str) -> None:
        self.begun += phase == "observe"
        if self.begun >= self.cycle_to_die and phase == self.phase_to_die:
            self.phase_to_die = ""
            logging.getLogger("driver").warning("%s as %s begins in cycle %d", self.fate.name, phase, self.begun)
            os.kill(os.getpid(), self.fate)


if __name__ == "__main__":
    log_to_stderr("info", os.environ)
    daemon = build(App(sys.argv[1]), patience_s=PATIENCE_S)
    daemon.parts.context.beside = replace(daemon.parts.knowledge, progressed=Doom().entering)
    daemon.service.run()
