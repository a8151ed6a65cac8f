"""Clients that send slowly, take nothing, or come in crowds hold no place that a user needs."""

from __future__ import annotations

import http.client
import socket
import threading
import time

import pytest

pytest.importorskip("flask")
pytest.importorskip("waitress")

from flask import Flask

from slurmsched.web.asking import AT_ONCE, Turns
from slurmsched.web.patience import ASK_S, CONNECTIONS, TAKE_S, THREADS, TcpDoor, Waiting, gives_way, overdue
from slurmsched.web.problems import Problem


def waiting(peer, since_s, takes=False):
    return Waiting(peer, since_s, takes, object())


def test_whoever_has_not_sent_a_whole_request_or_taken_the_answer_in_time_is_hung_up_on():
    slow, new = waiting("a", 0.0), waiting("a", ASK_S)
    taking, stuck = waiting("a", 0.0, takes=True), waiting("a", ASK_S - TAKE_S, takes=True)
    assert overdue([slow, new, taking, stuck], ASK_S + 1.0) == [slow, stuck]


def test_without_room_the_peer_with_the_most_gives_way_and_of_these_the_one_that_waits_longest():
    alone, first, second = waiting("b", 0.0), waiting("a", 1.0), waiting("a", 2.0)
    assert gives_way([alone, second, first], ["b", "a", "a"]) == first
    assert gives_way([alone, second], ["b", "a"]) == alone
    assert gives_way([alone], ["b", "a", "a", "a"]) == alone, "requests of others are being worked on"
    assert gives_way([], ["a"]) is None


def test_a_user_has_a_few_requests_at_a_time_and_others_are_answered_meanwhile():
    assert AT_ONCE < THREADS / 2
    turns = Turns(2)
    with turns.of("alice"), turns.of("alice"), turns.of("bob"):
        with pytest.raises(Problem) as refused, turns.of("alice"):
            raise AssertionError("a third one was taken")
        assert (int(refused.value.status), refused.value.headers) == (429, {"Retry-After": "1"})
    with turns.of("alice"), turns.of("alice"):
        pass


@pytest.fixture(scope="module")
def port():
    """A door in front of an application with a short answer and a long one."""
    app = Flask("test", static_folder=None)
    app.add_url_rule("/", "short", lambda: "here")
    app.add_url_rule("/long", "long", lambda: "x" * 10**6)
    server = TcpDoor.open("127.0.0.1", 0, app)
    threading.Thread(target=server.run, daemon=True).start()
    return int(server.effective_port)  # it ends with the process: no thread can stop it


def asked(port):
    """The answer, and the seconds until it was there."""
    began_s = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/")
    answer = connection.getresponse().read()
    connection.close()
    return answer, time.monotonic() - began_s


def crowd(port, sends, many=CONNECTIONS + 50):
    found = []
    for _ in range(many):
        one = socket.create_connection(("127.0.0.1", port), 60)
        one.sendall(sends)
        found.append(one)
    return found


def hung_up(one) -> bool:
    try:
        one.settimeout(60)
        while one.recv(2**16):
            pass
    except ConnectionError:
        pass
    return True


@pytest.mark.parametrize(
    "sends",
    [
        b"GET / HTTP/1.1\r\nHost: a\r\nX: a",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9000\r\n\r\na",
        b"GET /long HTTP/1.1\r\nHost: a\r\n\r\n",
        b"",
    ],
    ids=["header", "body", "answers not taken", "nothing"],
)
def test_a_user_is_answered_at_once_beside_more_slow_clients_than_there_are_places(port, sends):
    slow = crowd(port, sends)
    try:
        found = [asked(port) for _ in range(5)]
        assert {answer for answer, _ in found} == {b"here"}
        assert sum(took_s for _, took_s in found) < 20.0
    finally:
        for one in slow:
            one.close()


def test_bytes_that_trickle_in_buy_no_time(port):
    with socket.create_connection(("127.0.0.1", port), 60) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\nX: ")
        began_s, ended = time.monotonic(), threading.Event()

        def trickle():
            while not ended.wait(0.2):
                try:
                    slow.sendall(b"a")
                except OSError:
                    return

        thread = threading.Thread(target=trickle, daemon=True)
        thread.start()
        assert hung_up(slow)
        took_s = time.monotonic() - began_s
        ended.set()
        thread.join(60)
    assert took_s > ASK_S - 1.0


def test_requests_behind_the_first_of_a_connection_are_not_answered(port):
    with socket.create_connection(("127.0.0.1", port), 60) as one:
        one.sendall(b"GET /long HTTP/1.1\r\nHost: a\r\n\r\n" * 100)
        got = b""
        try:
            while part := one.recv(2**20):
                got += part
        except ConnectionError:
            pass
    assert got.count(b"HTTP/1.1 200") == 1
    assert b"Connection: close" in got[:1000]
