#!/usr/bin/env python3
"""Stands in for nvidia-cuda-mps-control: -f is the daemon, without it the commands on standard input are sent to one.

Beside the pipe it keeps what a test wants to see of its environment. ``fault`` in the pipe writes a line of a server
that died, as the real one's log has it; ``quit`` ends it.
"""

import json
import os
import sys
import time

pipes = os.environ["CUDA_MPS_PIPE_DIRECTORY"]
control = os.path.join(pipes, "control")
if sys.argv[1:] != ["-f"]:
    with open(control, "w") as pipe:
        pipe.write(sys.stdin.read())
    sys.exit(0)
log = os.path.join(os.environ["CUDA_MPS_LOG_DIRECTORY"], "control.log")


def say(text):
    with open(log, "a") as file:
        file.write(f"[Control] {text}\n")


seen = {name: value for name, value in os.environ.items() if name.startswith("CUDA")}
with open(os.path.join(pipes, "seen"), "w") as file:
    json.dump({"uid": os.getuid(), "pid": os.getpid(), **seen}, file)
time.sleep(float(os.environ.get("MPS_SLOW_S", "0")))
os.mkfifo(control, 0o600)
say("Starting control daemon")
while True:
    with open(control) as pipe:
        for command in pipe.read().split():
            say(f"NEW COMMAND {command}")
            if command == "fault":
                say("Server 4711 exited with status 1")
            if command == "quit":
                sys.exit(0)
