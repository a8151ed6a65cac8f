"""A process that answers after a second, in which it takes nothing of a processor."""

import sys
import time
from multiprocessing.connection import Connection

if __name__ == "__main__":
    connection = Connection(int(sys.argv[1]))
    connection.recv()
    time.sleep(1.0)
    connection.send("")
