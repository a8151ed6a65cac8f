"""Notices: what is told to whom, in which words, how often, and through servers that fail in every way."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import closing, contextmanager
from email import message_from_bytes, policy
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmsched.clock import ManualClock
from slurmsched.cluster.actions import Requeue
from slurmsched.cluster.columns import table_of
from slurmsched.cluster.jobs import job_table
from slurmsched.cluster.records.predictions import prediction_table
from slurmsched.cluster.records.promises import PromiseState, PromiseTable
from slurmsched.config.service_settings import NOTICES, NoticesSettings
from slurmsched.daemon.notices.channels import ByApprise, NoticeFailed, Sendmail, Webhook, demand_valid_notices
from slurmsched.daemon.notices.events import Health, Look, Notice, Watcher
from slurmsched.daemon.notices.messages import Message, message_of
from slurmsched.daemon.notices.recipients import Recipients
from slurmsched.daemon.notices.service import HOUR_S, OLD_S, NoticeService
from slurmsched.errors import ConfigError, SlurmRefused
from slurmsched.explain.freed_queue import IdleHold

NOW_S = 1_700_000_000.0
HOSTILE = "x\r\nBcc: victim@example.org\r\n\r\nbody\x1b[2J\u202e"
FACTS = {
    "name": "train", "gpus": 4, "since_s": NOW_S, "restarts": 2, "was_s": NOW_S, "start_s": NOW_S + 7200,
    "deadline_s": NOW_S, "promised_s": NOW_S, "earliest_s": NOW_S, "reason": "full", "words": "something is off",
}  # fmt: skip


def jobs(*ids, users=None, **columns):
    many = len(ids)
    known = {"job_id": list(ids), "user": users or ["zoe"] * many, "name": ["train"] * many}
    return job_table(many, **known, first_submit_s=np.full(many, NOW_S), **columns)


def look(at_s=0.0, pending=(), running=(), promises=(), idle=(), starts=None, actions=(), health=None, mode="act"):
    pending = pending if hasattr(pending, "job_id") else jobs(*pending)
    running = running if hasattr(running, "job_id") else jobs(*running)
    table = table_of(PromiseTable, len(promises), {}, {
        "job_id": [job for job, _, _ in promises], "asked_s": [NOW_S] * len(promises), "user": ["zoe"] * len(promises),
        "state": [int(state) for _, state, _ in promises], "promised_s": [NOW_S + 60] * len(promises),
        "announced_s": [NOW_S if doubt else np.nan for _, _, doubt in promises]})  # fmt: skip
    plan = SimpleNamespace(promises=table, actions=list(actions))
    told = None
    if starts is not None:
        told = prediction_table(len(starts), job_id=list(starts), start_s=[NOW_S + at for at in starts.values()])
    view = SimpleNamespace(now_s=NOW_S + at_s, pending=pending, running=running)
    return Look(view, plan, mode, told, idle, health or Health())


def kinds(watcher, *looks):
    return [[(one.kind, one.job_id) for one in watcher.seen(each)] for each in looks]


def test_promises_are_told_as_they_change_and_not_those_that_were_there_before():
    opened, doubt = (7, PromiseState.OPEN, False), (7, PromiseState.OPEN, True)
    told = kinds(
        Watcher(),
        look(promises=[(6, PromiseState.OPEN, False)]),
        look(promises=[(6, PromiseState.OPEN, False), opened, (8, PromiseState.REFUSED, False)]),
        look(promises=[doubt]),
        look(promises=[doubt]),
        look(promises=[opened]),
        look(promises=[(7, PromiseState.BROKEN, False)]),
        look(promises=[(7, PromiseState.MET, False)]),
    )
    given = [("promise-given", 7), ("promise-refused", 8)]
    assert told == [[], given, [("promise-doubt", 7)], [], [], [("promise-broken", 7)], []]
    assert kinds(Watcher(), look(mode="observe"), look(promises=[opened], mode="observe")) == [[], []]


def test_idle_gpus_are_told_once_for_each_time():
    hold = [IdleHold(7, "zoe", "lab", "gpu", 4, NOW_S)]
    told = kinds(Watcher(), look(running=[7]), *(look(running=[7], idle=one) for one in (hold, hold, (), hold)))
    assert told == [[], [("idle", 7)], [], [], [("idle", 7)]]


def test_a_job_that_we_asked_to_requeue_is_told_when_it_waits_again():
    again = jobs(7, restarts=[1])
    waits = look(pending=again)
    told = kinds(Watcher(), look(), look(running=[7], actions=[Requeue(7)]), look(running=[7]), waits, waits)
    assert told == [[], [], [], [("evicted", 7)], []]
    assert kinds(Watcher(), look(), look(running=[7]), look(pending=again)) == [[], [], []], "Slurm's own doing"


def test_a_start_that_moves_by_more_than_an_hour_is_told_from_the_one_that_was_told_last():
    looks = [look(at, pending=[7], starts={7: start}) for at, start in enumerate((100, 3000, 3800, 3900, 100, 50))]
    assert kinds(Watcher(), *looks) == [[], [], [("moved", 7)], [], [("moved", 7)], []]
    gone = [look(pending=[7], starts={7: 0}), look(pending=[7], starts={}), look(pending=[7], starts={7: 9000})]
    assert kinds(Watcher(), *gone)[-1] == [("moved", 7)]


def test_quiet_jobs_are_nobodys_news():
    silent = jobs(7, quiet=[True])
    watcher = Watcher()
    watcher.seen(look())
    hold = [IdleHold(7, "zoe", "lab", "gpu", 4, NOW_S)]
    assert watcher.seen(look(running=silent, idle=hold, promises=[(7, PromiseState.OPEN, False)])) == []


def test_trouble_of_the_daemon_is_told_once_after_five_minutes():
    bad, good = Health(database="away"), Health()
    states = ((0, bad), (299, bad), (300, bad), (600, bad), (700, good), (800, bad), (1200, bad))
    looks = [look(at, health=one) for at, one in states]
    assert [len(one) for one in kinds(Watcher(), *looks)] == [0, 0, 1, 0, 0, 0, 1]


@pytest.mark.parametrize(
    ("printed", "address"),
    [
        ("JobId=7\n   MailUser=zoe@lab.org MailType=END\n", "zoe@lab.org"),
        ("JobId=7\n   MailUser=zoe MailType=END\n", "zoe@example.org"),
        ("JobId=7 JobName=MailUser=evil@x.org\n", "zoe@example.org"),
        ("JobId=7 Comment=slurmsched:quiet MailUser=evil@x.org\n", "zoe@example.org"),
        ("   MailUser=-oQ/tmp@x.org\n", "zoe@example.org"),
        ("   MailUser=a@b.org,c@d.org\n", "zoe@example.org"),
        (None, "zoe@example.org"),
    ],
)
def test_the_address_is_mail_user_where_it_is_one_else_the_owner_at_the_site(printed, address):
    def query(argv):
        if printed is None:
            raise SlurmRefused("Invalid job id specified")
        return printed.replace("\n   ", " ") if "--oneliner" in argv else printed

    assert Recipients(query).of(7, "zoe", "example.org") == address
    assert Recipients(query).of(7, "zoe", "") == (address if address == "zoe@lab.org" else "")
    assert Recipients(query).of(7, "-zoe\n", "example.org") in ("", "zoe@lab.org", "zoe@example.org")


@pytest.mark.parametrize(
    "text",
    [
        "x\n   MailUser=evil@x.org MailType=END",
        "x\nJobId=8\n   MailUser=evil@x.org",
        "\nJobId=7\n   MailUser=evil@x.org",
    ],
)
@pytest.mark.parametrize(
    ("own", "address"), [("", "zoe@example.org"), ("   MailUser=zoe@lab.org\n", "zoe@example.org")]
)
def test_a_comment_of_several_lines_chooses_no_recipient(text, own, address):
    def query(argv):
        if "--oneliner" in argv:
            return f"JobId=7 JobName=a Comment={text} Power= {own.strip()}\n"
        return f"JobId=7 JobName=a\n   Comment={text}\n   Power=\n{own}"

    assert Recipients(query).of(7, "zoe", "example.org") == address


@pytest.mark.parametrize("kind", NOTICES)
def test_every_kind_has_its_template_and_no_text_of_a_user_leaves_its_line(kind):
    facts = FACTS | {"name": HOSTILE, "reason": HOSTILE}
    made = message_of(Notice(kind, NOW_S, "zoe", 7, facts), "c\r\nX: y", left_out=3)
    assert made.subject.isprintable()
    assert "\nBcc:" not in made.text
    assert "\x1b" not in made.text
    assert "\u202e" not in made.text
    if kind not in ("accuracy", "degraded", "database"):
        assert "slurmsched:quiet" in made.text
        assert "3 earlier notices" in made.text


def test_templates_of_the_site_win_and_a_broken_one_is_named(tmp_path):
    (tmp_path / "notice-idle.txt").write_text("Idle: {{ job_id }}\n\nHello {{ name }}\n{% include 'notice-end.txt' %}")
    notice = Notice("idle", NOW_S, "zoe", 7, FACTS)
    made = message_of(notice, "c", directory=str(tmp_path))
    assert (made.subject, "Hello train" in made.text, "slurmsched:quiet" in made.text) == ("Idle: 7", True, True)
    (tmp_path / "notice-moved.txt").write_text("{{ nothing }}")
    with pytest.raises(ConfigError, match=r"notice-moved\.txt"):
        message_of(Notice("moved", NOW_S, "zoe", 7, FACTS), "c", directory=str(tmp_path))


MESSAGE, NOTICE = Message("a subject", "a text\n.\nmore\n"), Notice("idle", NOW_S, "zoe", 7, FACTS)


class Sink:
    """An SMTP server on loopback that keeps what it is given, and a sendmail that hands mail to it."""

    def __init__(self, directory):
        self.mails = []
        self._server = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._serve, daemon=True).start()
        self.program = directory / "sendmail"
        self.program.write_text(
            "#!/usr/bin/env python3\nimport smtplib, sys\nargs = sys.argv[1:]\nassert args[:2] == ['-i', '-f']\n"
            "to = args[args.index('--') + 1:]\n"
            f"with smtplib.SMTP('127.0.0.1', {self._server.getsockname()[1]}) as server:\n"
            "    server.sendmail(args[2], to, sys.stdin.buffer.read())\n"
        )
        self.program.chmod(0o755)

    def _serve(self):
        while True:
            try:
                peer, _ = self._server.accept()
            except OSError:
                return
            with peer, peer.makefile("rwb") as talk:
                talk.write(b"220 sink\r\n")
                talk.flush()
                to = []
                for line in talk:
                    word = line[:4].upper()
                    if word == b"RCPT":
                        to.append(line.split(b"<")[1].split(b">")[0].decode())
                    if word == b"DATA":
                        talk.write(b"354 go on\r\n")
                        talk.flush()
                        body = b""
                        while not body.endswith(b"\r\n.\r\n"):
                            body += talk.readline()
                        self.mails.append(
                            (to, message_from_bytes(body[:-5].replace(b"\n..", b"\n."), policy=policy.default))
                        )
                    talk.write(b"221 bye\r\n" if word == b"QUIT" else b"250 fine\r\n")
                    talk.flush()
                    if word == b"QUIT":
                        break

    def close(self):
        self._server.close()


@pytest.fixture
def sink(tmp_path):
    with closing(Sink(tmp_path)) as sink:
        yield sink


def test_mail_reaches_its_reader_whole(sink):
    Sendmail(str(sink.program), "slurm@example.org").send(["zoe@example.org"], MESSAGE, NOTICE)
    ((to, mail),) = sink.mails
    assert to == ["zoe@example.org"]
    assert (mail["From"], mail["To"], mail["Subject"]) == ("slurm@example.org", "zoe@example.org", "a subject")
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail.get_content().replace("\r\n", "\n").rstrip("\n") == MESSAGE.text.rstrip("\n")


@given(st.text(max_size=80), st.text(max_size=80))
def test_no_name_adds_a_header_or_a_reader(name, cluster):
    facts = FACTS | {"name": name, "reason": name}
    program, headers = Sendmail("/bin/true", "slurm@example.org"), {
        "from", "to", "subject", "date", "auto-submitted", "content-type", "content-transfer-encoding", "mime-version",
    }  # fmt: skip
    for kind in ("idle", "promise-refused"):
        made = message_of(Notice(kind, NOW_S, "zoe", 7, facts), cluster)
        mail = message_from_bytes(program.mail(["zoe@example.org"], made, NOTICE), policy=policy.default)
        assert sorted(key.lower() for key in mail) == sorted(headers), "each one once"
        assert mail["To"] == "zoe@example.org"


@pytest.mark.parametrize(("script", "why"), [("exit 75", "status 75"), ("sleep 60", "longer than 0.5 s")])
def test_a_mail_program_that_fails_or_hangs_is_told(tmp_path, script, why):
    program = tmp_path / "sendmail"
    program.write_text(f"#!/bin/sh\n{script.replace('sleep', 'exec sleep')}\n")
    program.chmod(0o755)
    began_s = time.monotonic()
    with pytest.raises(NoticeFailed, match=why):
        Sendmail(str(program), "slurm@example.org", timeout_s=0.5).send(["zoe@example.org"], MESSAGE, NOTICE)
    assert time.monotonic() - began_s < 50
    with pytest.raises(NoticeFailed, match="No such file"):
        Sendmail(str(tmp_path / "none"), "slurm@example.org").send(["zoe@example.org"], MESSAGE, NOTICE)


@contextmanager
def server(answer):
    """An HTTP server on loopback: *answer* gets each connection and the request that came."""
    requests = []
    listening = socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            try:
                peer, _ = listening.accept()
            except OSError:
                return
            with peer:
                peer.settimeout(60)
                got = b""
                try:
                    while b"\r\n\r\n" not in got:
                        got += peer.recv(65536)
                    head, _, body = got.partition(b"\r\n\r\n")
                    lengths = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")]
                    length = int(lengths[0].split()[-1])
                    while len(body) < length:
                        body += peer.recv(65536)
                    requests.append((head, body))
                    answer(peer)
                except OSError:
                    pass

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/hook/s3cret?a=b", requests
    finally:
        listening.close()


def test_a_webhook_gets_the_notice_as_json():
    with server(lambda peer: peer.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")) as (url, requests):
        Webhook(url).send(["zoe@example.org"], Message(HOSTILE, HOSTILE), NOTICE)
    ((head, body),) = requests
    assert head.startswith(b"POST /hook/s3cret?a=b HTTP/1.1\r\nHost: 127.0.0.1:")
    told = json.loads(body)
    assert (told["to"], told["subject"], told["job_id"], told["user"]) == (["zoe@example.org"], HOSTILE, 7, "zoe")


def dripping(peer):
    for _ in range(100):
        peer.sendall(b"H")
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (lambda peer: peer.sendall(b"HTTP/1.1 500 Oh\r\n\r\n"), "status 500"),
        (lambda peer: peer.sendall(b"HTTP/1.1 302 Moved\r\nLocation: http://127.0.0.1:1/\r\n\r\n"), "status 302"),
        (lambda peer: peer.sendall(b"SSH-2.0-liar\r\n"), "cannot be reached"),
        (lambda peer: peer.sendall(b"x" * 100_000), "cannot be reached"),
        (lambda peer: None, "cannot be reached"),
        (lambda peer: time.sleep(5), "longer than 1 s"),
        (dripping, "longer than 1 s"),
    ],
    ids=["refuses", "redirects", "lies", "floods", "hangs up", "hangs", "drips"],
)
def test_a_server_that_hangs_lies_or_refuses_costs_its_time_and_no_more(answer, why):
    with server(answer) as (url, _), pytest.raises(NoticeFailed, match=why) as failed:
        Webhook(url, timeout_s=1.0).send(["zoe@example.org"], MESSAGE, NOTICE)
    assert "s3cret" not in str(failed.value)
    assert "s3cret" not in repr(Webhook(url))


def test_nobody_listening_is_a_failure():
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    with pytest.raises(NoticeFailed, match="cannot be reached"):
        Webhook(f"http://127.0.0.1:{port}/").send([], MESSAGE, NOTICE)


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # in what Apprise imports
def test_apprise_sends_to_owners_where_a_url_has_a_place_for_them_and_to_admins_by_all():
    pytest.importorskip("apprise")
    with server(lambda peer: peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")) as (url, requests):
        base = url.removeprefix("http://").split("/")[0]
        both = ByApprise((f"json://{base}/owner/{{recipient}}", f"json://{base}/admins"))
        both.send(["zoe@example.org"], MESSAGE, NOTICE)
        both.send(["root@example.org"], MESSAGE, Notice("degraded", NOW_S))
    paths = [head.split()[1].decode() for head, _ in requests]
    first, *then = [path.split("/")[1] for path in paths]
    assert (first, sorted(then)) == ("owner", ["admins", "owner"]), "Apprise sends to both at once"
    assert "zoe" in paths[0]
    assert b"a subject" in requests[0][1]
    assert not ByApprise((f"json://{base}/admins",)).reaches_owners
    with pytest.raises(NoticeFailed):
        ByApprise(("nonsense://x",)).send([], MESSAGE, Notice("degraded", NOW_S))


class Kept:
    """A channel that keeps what it gets, and fails while told to."""

    reaches_owners = True

    def __init__(self):
        self.sent, self.fails = [], 0

    def send(self, to, message, notice):
        if self.fails:
            self.fails -= 1
            raise NoticeFailed("the other side is away")
        self.sent.append((tuple(to), notice.kind, message.text))


@pytest.fixture
def world():
    clock, channel, results, looks = ManualClock(NOW_S), Kept(), [], []
    on = {"now": NoticesSettings(enabled=True, domain="example.org", admins=("root@example.org",), per_hour=2)}
    service = NoticeService(
        lambda: on["now"], lambda report: looks.pop(0), Recipients(lambda argv: ""), "c", clock, results.append,
        lambda settings: channel,
    )  # fmt: skip

    def turn(*more):
        looks.extend(more)
        for _ in more:
            service.observe(SimpleNamespace())
            service._work()

    return SimpleNamespace(clock=clock, channel=channel, results=results, on=on, turn=turn)


def idle(at_s, *ids):
    return look(at_s, running=list(ids), idle=[IdleHold(job, "zoe", "lab", "gpu", 4, NOW_S) for job in ids])


def test_a_reader_gets_so_many_an_hour_and_then_hears_how_many_were_left_out(world):
    world.turn(idle(0), idle(1, 1, 2, 3, 4))
    assert world.results == ["sent", "sent", "limited", "limited"]
    world.clock.now_s += HOUR_S + 1
    world.turn(idle(HOUR_S + 1, 5))
    assert world.channel.sent[-1][0] == ("zoe@example.org",)
    assert "2 earlier notices" in world.channel.sent[-1][2]


def test_what_fails_is_tried_again_later_and_is_no_news_after_an_hour(world):
    world.channel.fails = 1
    world.turn(idle(0), idle(1, 1), idle(2, 1))
    assert world.results == ["failed"]
    world.clock.now_s += 61
    world.turn(idle(61, 1))
    assert world.results == ["failed", "sent"]
    world.channel.fails = 99
    world.turn(idle(62, 1, 2))
    world.clock.now_s += OLD_S + 100
    world.turn(idle(OLD_S, 1, 2))
    assert world.results[-1] == "old"


def test_settings_say_who_hears_of_what(world):
    world.on["now"] = NoticesSettings(enabled=True, domain="", admins=("root@example.org",))
    trouble = [look(at, health=Health(degraded="slow")) for at in (0, 400)]
    world.turn(idle(0), idle(1, 1), *trouble)
    assert world.results == ["nobody", "sent"]
    assert world.channel.sent[0][:2] == (("root@example.org",), "degraded")
    world.on["now"] = NoticesSettings(enabled=True, domain="example.org", kinds=("moved",))
    world.turn(idle(500), idle(501, 9))
    assert len(world.results) == 2
    world.on["now"] = NoticesSettings()
    world.turn()
    assert not NoticesSettings().enabled


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"sender": "nobody"}, "notices.sender"),
        ({"sender": "a@b.org", "admins": ("a@b.org", "x\n@b.org")}, "notices.admins"),
        ({"sender": "a@b.org", "domain": "b org"}, "notices.domain"),
        ({"channel": "webhook"}, "notices.webhook is empty"),
        ({"channel": "webhook", "webhook": "file:///etc/passwd"}, "notices.webhook is a hidden value"),
        ({"channel": "webhook", "webhook": "http://u:p@h/"}, "hidden value"),
        ({"channel": "webhook", "webhook": "http://h/a\r\nX: y"}, "hidden value"),
        ({"channel": "apprise"}, "notices.apprise is empty"),
    ],
)
def test_settings_that_could_send_nothing_are_refused_without_their_secrets(wrong, why):
    with pytest.raises(ConfigError, match=why) as refused:
        demand_valid_notices(NoticesSettings(enabled=True, **wrong))
    assert "passwd" not in str(refused.value)
    demand_valid_notices(NoticesSettings(**wrong))
