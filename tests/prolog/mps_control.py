#!/usr/bin/env python3
"""Stands in for nvidia-cuda-mps-control, with the lines of driver 580: -f is the daemon in the foreground, which writes
to its standard output, -d one in the background, which writes to two files; without them the commands on standard input
are sent to one.

Beside the pipe it keeps what a test wants to see of its environment. Its one server has a client for each job that
joined: commands in the pipe make faults of them, as the real one tells of them.
"""

import json
import os
import sys
import time

SERVER = 4711
LOST = "Server failed to recevie command with status 806, assuming client {PID: %d, Context ID: 1} exit"
TORN = ("Client {PID: %d, Context ID: 1} on device 0 to be torn down",
        "All clients belonging to error trigging process %d will be torn down")  # fmt: skip
#: What each command makes the daemon write, beside the command itself.
FAULTS = {
    # one client reads beside its memory, and all end
    "fault": ["Client {PID: 8, Context: 1} encountered a fatal GPU error.", "Server is handling a fatal GPU error.",
              *(line % pid for pid in (7, 8) for line in TORN), "The following devices will be reset:", "0",
              LOST % 8, "Client {PID: 8, Context ID: 1} exiting. Number of active client contexts is 1.",
              LOST % 7, "Client {PID: 7, Context ID: 1} exiting. Number of active client contexts is 0.",
              "Destroy server context on device 0 (NVIDIA H200)"],
    # one client is killed inside a kernel, and the other ends
    "killed": [LOST % 7, "Client {PID: 7, Context ID: 1} exiting. Number of active client contexts is 1.",
               "Client {PID: 8, Context: 1} encountered a fatal GPU error.", "Server is handling a fatal GPU error.",
               *(line % 8 for line in TORN)],
    # an assertion of one client fails
    "reset": [LOST % 7, "Client process 7 disconnected",
              "Client {PID: 7, Context ID: 1} exiting. Worker is in reset. Number of active client contexts is 1."],
    "end": [LOST % 7, "Client {PID: 7, Context ID: 1} exiting. Number of active client contexts is 1.",
            "Client process 7 disconnected"],
    "quiet": [],
}  # fmt: skip
#: The same for what the control daemon itself tells.
OF_CONTROL = {"died": [f"Server {SERVER} exited with status 0"], "crashed": [f"Server {SERVER} exited with status 11"]}


def main():
    pipes, logs = os.environ["CUDA_MPS_PIPE_DIRECTORY"], os.environ["CUDA_MPS_LOG_DIRECTORY"]
    control = os.path.join(pipes, "control")
    if sys.argv[1:] not in (["-f"], ["-d"]):
        with open(control, "w") as pipe:
            pipe.write(sys.stdin.read())
        return
    files = sys.argv[1] == "-d" or "MPS_TO_FILES" in os.environ
    if sys.argv[1] == "-d":
        if os.fork():
            return
        os.setsid()
        with open(os.path.join(pipes, "nvidia-cuda-mps-control.pid"), "w") as file:
            file.write(str(os.getpid()))

    def say(who, text):
        now = time.time()
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
        pid = SERVER if who == "Server" else os.getpid()
        line = f"[{at}.{int(now % 1 * 1000):03d} {who} {pid:5d}] {text}\n"
        if files:
            with open(os.path.join(logs, "server.log" if who == "Server" else "control.log"), "a") as file:
                file.write(line)
        else:
            os.write(1, line.encode())

    seen = {name: value for name, value in os.environ.items() if name.startswith("CUDA")}
    with open(os.path.join(pipes, "seen"), "w") as file:
        json.dump({"uid": os.getuid(), "pid": os.getpid(), **seen}, file)
    time.sleep(float(os.environ.get("MPS_SLOW_S", "0")))
    os.mkfifo(control, 0o600)
    say("Control", f"Starting control daemon using socket {control}")
    say("Control", "User did not send valid credentials")
    say("Control", f"NEW SERVER {SERVER}: Ready")
    while True:
        with open(control) as pipe:
            for command in pipe.read().split():
                say("Control", f"Cmd:{command}")
                for text in FAULTS.get(command, ()):
                    say("Server", text)
                for text in OF_CONTROL.get(command, ()):
                    say("Control", text)
                say("Control", f"done {command}")
                if command == "quit":
                    say("Control", f"Try shutting down server {SERVER}, backoff is disabled")
                    say("Control", f"Server {SERVER} exited with status 0")
                    say("Control", "Exit with status 0")
                    sys.exit(0)


if __name__ == "__main__":
    main()
