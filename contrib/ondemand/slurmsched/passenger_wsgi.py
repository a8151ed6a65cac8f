"""An app of Open OnDemand: the pages of ``slurmsched web``, for the user as whom Passenger runs it.

It passes requests on to the socket for users of this host, where the kernel says who asks. GET alone; answers stay as
they are, but links have the address of the app before them.
"""

import http.client
import os
import re
import socket

SOCKET = os.environ.get("SLURMSCHED_WEB_SOCKET", "/run/slurmsched-web/users.sock")
TIMEOUT_S = 30
ANSWER_MOST_B = 8 * 1024 * 1024
_PASSED_ON = ("content-type", "content-security-policy", "cache-control", "referrer-policy", "x-content-type-options",
              "retry-after")  # fmt: skip
_LINK = re.compile(rb'(href|action)="/')


class Connection(http.client.HTTPConnection):
    """A connection over a unix socket."""

    def connect(self):
        """Open it."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(TIMEOUT_S)
        self.sock.connect(SOCKET)


def application(environ, start_response):
    """Answer a request of the user."""
    if environ["REQUEST_METHOD"] != "GET":
        return _plain(start_response, "405 Method Not Allowed", "only GET")
    path, query = environ.get("PATH_INFO") or "/", environ.get("QUERY_STRING", "")
    connection = Connection("slurmsched")
    try:
        connection.request("GET", _quoted(path) + (f"?{query}" if query else ""))
        answer = connection.getresponse()
        body = answer.read(ANSWER_MOST_B)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return _plain(start_response, "503 Service Unavailable", f"slurmsched web does not answer on {SOCKET}: {error}")
    finally:
        connection.close()
    root = environ.get("SCRIPT_NAME", "").encode("latin-1", "replace")
    headers = [(name, value) for name, value in answer.getheaders() if name.lower() in _PASSED_ON]
    if answer.getheader("content-type", "").startswith("text/html"):
        body = _LINK.sub(rb'\1="' + root.replace(b"\\", b"") + b"/", body)
    start_response(f"{answer.status} {answer.reason}", [*headers, ("Content-Length", str(len(body)))])
    return [body]


def _quoted(path):
    from urllib.parse import quote

    return quote(path.encode("latin-1", "replace"), safe="/")


def _plain(start_response, status, words):
    body = f"{words}\n".encode("utf-8", "replace")
    start_response(status, [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))])
    return [body]
