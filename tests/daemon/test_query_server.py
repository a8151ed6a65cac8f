from __future__ import annotations

import json
import os
import pwd
import shutil
import socket
import stat
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest
from daemon_worlds import ask, seen, wait_until

from slurmsched.daemon.api.query_arguments import AnswerRefused
from slurmsched.daemon.api.query_handlers import QueryHandlers
from slurmsched.daemon.api.query_protocol import ANSWER_B, REQUEST_B, DaemonUnreachable
from slurmsched.daemon.api.query_server import QueryServer
from slurmsched.daemon.api.questions.contract import Sources
from slurmsched.errors import ConfigError


class Office:
    """What answers, with doors a test can hold shut."""

    def __init__(self):
        self.open = threading.Event()
        self.open.set()
        self.asked = 0
        self.steps, self.counting = threading.Semaphore(0), threading.Lock()
        self.checking, self.most_checking, self.checked = 0, 0, []
        self.extra = {}

    def status(self):
        self.asked += 1
        self.open.wait(120.0)
        return {"mode": "observe", **self.extra}

    def broken(self, view, plan, job_id, beside):
        raise ZeroDivisionError("a bug")

    def queue(self, view, plan):
        return {"jobs": len(view.pending)}

    def check(self, view, plan, options, user):
        """A new job: takes until the test lets one more be done."""
        with self.counting:
            self.checking += 1
            self.most_checking = max(self.most_checking, self.checking)
        self.steps.acquire(timeout=120.0)
        with self.counting:
            self.checking -= 1
            self.checked.append(user)
        return {"user": user}


@pytest.fixture
def office():
    return Office()


@pytest.fixture
def serve(office, tmp_path):
    """Opens answers in ``tmp_path``; every one is closed, and leaves neither thread nor socket."""
    with ExitStack() as stack:

        def opened(patience_s=60.0, turn_s=2.5, answer_s=60.0, **known):
            sources = Sources(
                office.status,
                office.broken,
                office.broken,
                office.queue,
                lambda job_id, since_s: [],
                check=office.check,
                **known,
            )
            questions = QueryHandlers(sources, trusted=(0,))
            questions.observe(seen())
            answers = QueryServer(tmp_path, questions, patience_s=patience_s, turn_s=turn_s, answer_s=answer_s)
            stack.callback(answers.close)
            answers.start()
            return tmp_path / "slurmsched.sock"

        yield opened
        office.open.set()
        office.steps.release(100)
    assert "answers" not in [thread.name for thread in threading.enumerate()]
    assert not (tmp_path / "slurmsched.sock").exists()


def client(path) -> socket.socket:
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stream.settimeout(60.0)
    stream.connect(str(path))
    return stream


def heard(stream) -> bytes:
    """All that comes until the daemon hangs up."""
    said = b""
    try:
        while chunk := stream.recv(65536):
            said += chunk
    except ConnectionResetError:
        pass
    return said


def test_a_question_is_answered(serve):
    assert ask(serve(), {"ask": "status"}) == {"schema": "slurmsched/1", "ask": "status", "mode": "observe"}


def test_every_user_of_the_machine_may_ask(serve):
    path = serve()
    assert stat.S_IMODE(path.stat().st_mode) == 0o666


def test_a_refusal_comes_in_the_daemons_words(serve):
    with pytest.raises(AnswerRefused, match='"ask" one of status'):
        ask(serve(), {"ask": "stop"})


def test_a_bug_in_an_answer_is_told_and_the_next_question_answered(serve, caplog):
    path = serve()
    with pytest.raises(AnswerRefused, match="a bug in the daemon"):
        ask(path, {"ask": "why", "job_id": 7})
    assert "ZeroDivisionError" in caplog.text
    assert ask(path, {"ask": "queue"})["queue"] == {"jobs": 2}


def test_an_answer_of_many_megabytes_arrives_whole(serve, office):
    office.extra = {"text": "x" * (ANSWER_B - 1000)}
    assert len(ask(serve(), {"ask": "status"})["text"]) == ANSWER_B - 1000


def test_an_answer_over_the_cap_is_refused(serve, office):
    office.extra = {"text": "x" * ANSWER_B}
    with pytest.raises(AnswerRefused, match="too long"):
        ask(serve(), {"ask": "status"})


def test_no_daemon_is_said_in_plain_words(tmp_path):
    with pytest.raises(DaemonUnreachable, match="is the slurmsched service running"):
        ask(tmp_path / "slurmsched.sock", {"ask": "status"})


def test_a_dead_daemons_socket_counts_as_no_daemon(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(tmp_path / "slurmsched.sock"))
    with pytest.raises(DaemonUnreachable, match="is the slurmsched service running"):
        ask(tmp_path / "slurmsched.sock", {"ask": "status"})


def test_a_daemon_that_hangs_is_waited_for_so_long_and_no_longer(serve, office):
    office.open.clear()
    with pytest.raises(DaemonUnreachable, match=r"no answer within 0\.2 s"):
        ask(serve(), {"ask": "status"}, timeout_s=0.2)


def test_a_stale_socket_is_replaced(serve, tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(tmp_path / "slurmsched.sock"))
    assert ask(serve(), {"ask": "status"})["mode"] == "observe"


def test_a_living_socket_is_left_alone(serve):
    path = serve()
    with pytest.raises(ConfigError, match="another process answers there"):
        serve()
    assert ask(path, {"ask": "status"})["mode"] == "observe"


def test_what_is_no_socket_is_left_alone(tmp_path):
    (tmp_path / "slurmsched.sock").write_text("precious")
    with pytest.raises(ConfigError, match="something that is no socket"):
        QueryServer(tmp_path, QueryHandlers(Sources(dict, None, None, None, None), trusted=()))
    assert (tmp_path / "slurmsched.sock").read_text() == "precious"


@pytest.mark.parametrize(
    "said", [b"\n", b"garbage\n", b"\x00\xff\xfe\n", b'{"ask": NaN}\n', b"[" * 4000 + b"\n", b"9" * 4090 + b"\n"]
)
def test_garbage_is_refused_in_a_line_of_json(serve, said):
    with client(serve()) as stream:
        stream.sendall(said)
        assert "error" in json.loads(heard(stream))


def test_a_line_of_ten_megabytes_is_not_read_to_its_end(serve):
    path = serve()
    with client(path) as stream:
        assert not all(_takes(stream, b"x" * 65536) for _ in range(160))
        assert f"at most {REQUEST_B} bytes" in json.loads(heard(stream))["error"]
    assert ask(path, {"ask": "status"})["mode"] == "observe"


def test_half_a_line_is_dropped_after_a_while_without_an_answer(serve):
    with client(serve(patience_s=0.2)) as stream:
        _takes(stream, b'{"ask": "sta')
        assert heard(stream) == b""


def test_a_client_that_drips_its_question_gets_no_longer_than_any_other(serve):
    with client(serve(patience_s=0.3)) as stream:
        wait_until(lambda: not _takes(stream, b"x"))


def _takes(stream, said) -> bool:
    try:
        stream.sendall(said)
    except OSError:
        return False
    return True


def test_a_client_that_never_reads_its_answer_is_dropped(serve, office):
    office.extra = {"text": "x" * 2**20}
    path = serve(patience_s=0.3)
    with ExitStack() as stack:
        deaf = [stack.enter_context(client(path)) for _ in range(8)]
        for stream in deaf:
            _takes(stream, b'{"ask": "status"}\n')
        wait_until(lambda: _answered(path))


def _answered(path) -> bool:
    try:
        return ask(path, {"ask": "status"})["mode"] == "observe"
    except (AnswerRefused, DaemonUnreachable):  # too many clients, or a server too busy for its own patience
        return False


CHECK = b'{"ask": "check", "options": "-G 4"}\n'


def test_what_takes_long_is_worked_on_one_by_one_and_keeps_no_other_question_waiting(serve, office):
    path = serve(patience_s=60.0)
    with ExitStack() as stack:
        busy = [stack.enter_context(client(path)) for _ in range(7)]
        for stream in busy:
            stream.sendall(CHECK)
        wait_until(lambda: office.checking == 1)
        for _ in range(50):
            assert ask(path, {"ask": "status"})["mode"] == "observe"
        assert (office.checking, office.checked) == (1, [])
        office.steps.release(7)
        assert all("check" in json.loads(heard(stream)) for stream in busy)
    assert office.most_checking == 1


def test_who_asks_too_much_of_what_takes_long_is_told_so(serve, office):
    path = serve(turn_s=0.2)
    with client(path) as first, client(path) as second:
        first.sendall(CHECK)
        wait_until(lambda: office.checking == 1)
        second.sendall(CHECK)
        told = json.loads(heard(second))
        assert ("still being worked on" in told["error"], told["again"]) == (True, True)
        office.steps.release()
        assert "check" in json.loads(heard(first))


def test_a_user_with_many_long_questions_keeps_another_waiting_for_one_of_them_alone(serve, office, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can ask as somebody else")
    python = shutil.which("python3", path="/usr/bin:/bin")
    if python is None:
        pytest.skip("no Python here that every user may run")
    path = serve(patience_s=60.0)
    tmp_path.chmod(0o755)
    program = f"import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect('{path.name}')\ns.sendall({CHECK!r})\n"
    program += "print('asked', flush=True)\nprint(s.makefile().readline())"
    with ExitStack() as stack:
        busy = [stack.enter_context(client(path)) for _ in range(7)]
        for stream in busy:
            stream.sendall(CHECK)
        wait_until(lambda: office.checking == 1)
        other = stack.enter_context(
            subprocess.Popen([python, "-c", program], cwd=path.parent, user="nobody", stdout=subprocess.PIPE, text=True)
        )
        assert other.stdout.readline() == "asked\n"
        ask(path, {"ask": "status"})  # the daemon has read what nobody said by now, or does with the next one
        office.steps.release(3)
        assert json.loads(other.stdout.readline())["check"] == {"user": "nobody"}
        other.wait(120.0)
        assert office.checked.count("root") <= 3
        office.steps.release(20)


def test_who_says_nothing_makes_room_for_who_asks(serve):
    path = serve(patience_s=600.0)
    with ExitStack() as stack:
        for _ in range(50):
            stack.enter_context(client(path))
        for _ in range(20):
            assert ask(path, {"ask": "status"})["mode"] == "observe"


def test_two_hundred_at_once_are_answered_or_sent_away_and_it_lives_on(serve):
    path = serve(patience_s=30.0)
    with ExitStack() as stack:
        crowd = [stack.enter_context(client(path)) for _ in range(200)]
        words = []
        for stream in crowd:
            _takes(stream, b'{"ask": "status"}\n')
            words.append(heard(stream))
    answers = [json.loads(word) for word in words if word]
    assert len(answers) == 200
    assert {"mode" in answer or "too many" in answer["error"] for answer in answers} == {True}
    assert _answered(path)


def test_a_crowd_that_says_nothing_is_sent_away(serve):
    path = serve(patience_s=0.3)
    with ExitStack() as stack:
        for _ in range(200):
            stack.enter_context(client(path))
        wait_until(lambda: _answered(path))


def test_who_asks_is_what_the_kernel_says(serve, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can ask as somebody else")
    python = shutil.which("python3", path="/usr/bin:/bin")
    if python is None:
        pytest.skip("no Python here that every user may run")
    path = serve(private=lambda: True)
    tmp_path.chmod(0o755)
    nobody = pwd.getpwnam("nobody")
    program = (
        "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect('slurmsched.sock')\n"
        's.sendall(b\'{"ask": "queue", "uid": 0}\\n\')\nprint(s.makefile().readline())'
    )
    for user, pending in ((None, 2), (nobody.pw_uid, 0)):
        told = subprocess.run(
            [python, "-c", program], cwd=path.parent, user=user, capture_output=True, text=True, timeout=120.0
        )
        assert json.loads(told.stdout)["pending"] == pending, told.stderr


WITHOUT_MEMORY = """
import resource, sys, threading
sys.path[:0] = [{tests!r}]
from daemon_worlds import ask, seen
from pathlib import Path
from slurmsched.daemon.api.query_handlers import QueryHandlers
from slurmsched.daemon.api.questions.contract import Sources
from slurmsched.daemon.api.query_server import QueryServer

refuse = lambda *arguments, **options: None
handlers = QueryHandlers(Sources(lambda: {{"mode": "observe"}}, refuse, refuse, refuse, refuse), trusted=(0,))
handlers.observe(seen())
server = QueryServer(Path({directory!r}), handlers)
server.start()
size = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmData")) * 1024
resource.setrlimit(resource.RLIMIT_DATA, (size + 2**20, size + 2**20))
try:
    threading.Thread(target=refuse).start()
except RuntimeError as error:
    print(error)
print(ask(Path({directory!r}) / "slurmsched.sock", {{"ask": "status"}})["mode"], flush=True)
server.close()
"""


def test_a_daemon_without_memory_for_another_thread_answers(tmp_path):
    program = WITHOUT_MEMORY.format(tests=str(Path(__file__).parent), directory=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120.0)
    assert done.stdout == "can't start new thread\nobserve\n", done.stderr[-2000:]


@pytest.mark.parametrize("question", [{"ask": "status"}, {"ask": "check", "options": "-G 4"}])
def test_who_would_wait_too_long_is_told_so_in_place_of_an_answer_that_breaks_off(office, serve, question):
    path = serve(answer_s=0.2)
    office.open.clear()
    with pytest.raises(AnswerRefused, match=r"takes longer than 0.2 s.*ask again in a moment"):
        ask(path, question)
    office.open.set()
    office.steps.release(1)
    wait_until(lambda: office.checked or question["ask"] == "status")
    assert ask(path, {"ask": "status"})["mode"] == "observe", "the work went on, and nothing is stuck behind it"
