"""Commands of an ordinary user on a host with the settings closed, as the install page has them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from daemon.daemon_worlds import seen
from fresh_host import CHECKOUT, FreshHost

from slurmsched.daemon.api.query_handlers import QueryHandlers
from slurmsched.daemon.api.query_server import QueryServer
from slurmsched.daemon.api.questions.contract import Sources
from slurmsched.decide.rules import Rules
from slurmsched.explain import explain
from slurmsched.explain.why import why

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def host(a_site) -> Iterator[FreshHost]:
    """The program is there, and the directories as tmpfiles.d makes them; alice is an ordinary user."""
    a_site.install_program()
    host = a_site.host
    host.sh("ln -s /opt/slurmsched/bin/slurmsched /usr/bin/ && useradd --system slurmsched && useradd alice")
    host.sh(f"systemd-tmpfiles --create {CHECKOUT}/systemd/tmpfiles.d/slurmsched.conf")
    host.sh("printf '[daemon]\\nlog_level = \"info\"\\n' >/etc/slurmsched/slurmsched.toml")
    yield host
    host.sh(f"userdel alice && rm -r /etc/other /etc/third && {CHECKOUT}/scripts/uninstall --force")


@pytest.fixture
def daemon(host, tmp_path) -> Iterator[None]:
    """Answers on /run/slurmsched of the host."""
    sources = Sources(
        lambda: {"mode": "observe"},
        lambda view, plan, job_id, beside: why(view, plan, Rules(), job_id, beside),
        lambda view, plan, job_id, beside: explain.explain(view, plan, Rules(), job_id, beside),
        explain.queue,
        lambda *job: [],
    )
    questions = QueryHandlers(sources, trusted=(0,))
    questions.observe(seen())
    answers = QueryServer(tmp_path, questions)
    answers.start()
    host.sh(f"mount --bind {tmp_path} /run/slurmsched && chmod 755 {tmp_path}")
    yield
    host.sh("umount /run/slurmsched")
    answers.close()


def as_alice(host: FreshHost, *words: str, **environment: str) -> tuple[int, str, str]:
    done = host.run("slurmsched", *words, user="alice", **environment)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr


def test_a_user_who_may_not_read_the_settings_is_answered_by_the_daemon(host, daemon):
    status, text, trouble = as_alice(host, "queue")
    assert (status, trouble) == (0, "")
    assert "as of" in text


@pytest.mark.parametrize("words", [("why", "4294967"), ("explain", "4294967"), ("story", "4294967")])
def test_a_job_that_is_not_there_is_status_3_for_an_ordinary_user_too(host, daemon, words):
    status, _, trouble = as_alice(host, *words)
    assert status == 3
    assert "settings" not in trouble


@pytest.mark.parametrize(
    "words",
    [
        *(("queue",), ("status",), ("deadline", "1")),
        *(
            pytest.param(words, marks=pytest.mark.soak)
            for words in (("eta",), ("why", "1"), ("explain", "1"), ("story", "1"))
        ),
    ],
)
def test_without_a_daemon_a_user_hears_that_and_nothing_of_settings_or_databases(host, words):
    status, text, trouble = as_alice(host, *words)
    assert (status, text) == (1, "")
    assert trouble.startswith("slurmsched: no daemon listens on /run/slurmsched/slurmsched.sock")
    assert "database" not in trouble
    assert "slurmsched.toml" not in trouble


@pytest.mark.parametrize(
    "words", [("config", "check"), ("config", "show"), ("check",), ("once",), ("release-all",), ("pause",)]
)
def test_a_command_of_admins_says_what_is_unreadable_and_who_may_read(host, words):
    status, _, trouble = as_alice(host, *words)
    assert status == 1
    assert "/etc/slurmsched/slurmsched.toml" in trouble
    assert "only root and the group slurmsched may read" in trouble


def test_what_a_user_may_read_of_the_settings_counts(host, daemon):
    host.sh(
        "install -d /etc/other/conf.d && printf '[daemon]\\nrun_dir = \"/run/slurmsched\"\\n' >/etc/other/s.toml"
        " && install -m 600 /dev/null /etc/other/conf.d/10-password.toml"
    )
    status, _, trouble = as_alice(host, "queue", SLURMSCHED_CONFIG="/etc/other/s.toml")
    assert (status, trouble) == (0, "")
    status, _, trouble = as_alice(host, "config", "check", SLURMSCHED_CONFIG="/etc/other/s.toml")
    assert status == 1
    assert "/etc/other/conf.d/10-password.toml" in trouble
    assert "only root may read" in trouble


def test_a_directory_of_drop_ins_that_is_closed_is_not_taken_for_an_empty_one(host):
    host.sh("install -d /etc/third && : >/etc/third/s.toml && install -d -m 700 /etc/third/conf.d")
    status, _, trouble = as_alice(host, "config", "check", SLURMSCHED_CONFIG="/etc/third/s.toml")
    assert status == 1
    assert "/etc/third/conf.d" in trouble
    assert "only root may read" in trouble
