"""A solver process that reads a problem and is killed, as for want of memory."""

import os
import signal
import sys
from multiprocessing.connection import Connection

if __name__ == "__main__":
    Connection(int(sys.argv[1])).recv()
    os.kill(os.getpid(), signal.SIGKILL)
