"""A solver process that reads a problem and never answers."""

import signal
import sys
from multiprocessing.connection import Connection

if __name__ == "__main__":
    connection = Connection(int(sys.argv[1]))
    connection.recv()
    signal.pause()
