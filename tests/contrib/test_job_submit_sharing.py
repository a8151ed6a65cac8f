"""job_submit.lua keeps a job that shares GPUs, or is on its way there, from asking for those of others."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "contrib/slurm.conf.d/job_submit.lua"
LUA = shutil.which("lua5.1")
PASSWD = (
    "root:x:0:0::/:/bin/sh\nslurmzsched:x:1001:1::/:/bin/sh\nslurm-sched:x:77:1::/:/bin/sh\nslurmsched:x:78:1::/:/x\n"
)
#: Loads the script over a passwd(5) of the test's own, and asks it what the rest of the chunk says.
ASK = """
local open = io.open
function io.open(name) return open(name == "/etc/passwd" and arg[2] or name) end
slurm = {{ SUCCESS = 0, ERROR = -1, log_user = function(...) io.write(string.format(...)) end,
  log_info = function(...) io.stderr:write(string.format(...)) end }}
dofile(arg[1])
local job, record, uid = {job}, {record}, {uid}
if record then slurm_job_modify(job, record, {{}}, uid) else slurm_job_submit(job, {{}}, uid) end
"""

pytestmark = pytest.mark.skipif(LUA is None, reason="lua5.1 is not installed")

MARKED = '{ partition = "gpu", comment = "note;slurmsched:share=0+1", tres_per_node = "gres:gpu:2" }'
MOVED = '{ partition = "shared", comment = "note;slurmsched:share=0+1", tres_per_job = "gres:slot:i0:1" }'
STRANGER = '{ partition = "gpu,shared", tres_per_node = "gres:gpu:1" }'
OWN = '{ partition = "gpu", comment = "slurmsched:ckpt", tres_per_node = "gres:gpu:2" }'


@pytest.fixture
def said(tmp_path):
    """What a user hears; empty where the change or the job is let through."""

    def ask(job: str, record: str = "nil", uid: int = 1000, script: str = SCRIPT.read_text()) -> str:
        (tmp_path / "passwd").write_text(PASSWD)
        (tmp_path / "job_submit.lua").write_text(script)
        (tmp_path / "ask.lua").write_text(ASK.format(job=job, record=record, uid=uid))
        command = [str(LUA), "ask.lua", "job_submit.lua", "passwd"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=True)
        assert done.stderr == ""
        return done.stdout

    return ask


@pytest.mark.parametrize("record", [MARKED, MOVED, STRANGER])
@pytest.mark.parametrize(
    "change",
    [
        'tres_per_job = "gres:gpu:4"',
        'tres_per_node = "gres:gpu:1"',
        'tres_per_node = ""',
        'tres_per_socket = "gres:gpu:1"',
        'tres_per_task = "gres/gpu:1"',
        'gres = "gpu:1"',
        'cpus_per_tres = "gres:gpu:1"',
        "ntasks_per_tres = 2",
        'req_nodes = "n3"',
        'req_nodes = ""',
        "min_nodes = 2",
        'partition = "gpu"',
    ],
)
def test_nobody_changes_what_a_job_that_shares_asks_for_or_where(said, record, change):
    assert "cannot be changed" in said(f"{{ {change} }}", record)
    assert said(f"{{ {change} }}", record, uid=0) == said(f"{{ {change} }}", record, uid=78) == ""


@pytest.mark.parametrize("record", [MARKED, MOVED, STRANGER])
def test_all_else_of_such_a_job_stays_its_owners(said, record):
    unsaid = "min_nodes = 4294967294, max_nodes = 4294967294, ntasks_per_tres = 65534, begin_time = 0"
    assert said(f'{{ time_limit = 10, nice = 5, name = "x", {unsaid} }}', record) == ""


@pytest.mark.parametrize("comment", ["", "mine", "slurmsched:share=0", "slurmsched:share=0+1,share=2", "x"])
def test_its_comment_keeps_the_token(said, comment):
    assert "keeps slurmsched:share=0+1" in said(f'{{ comment = "{comment}" }}', MOVED)
    assert said('{ comment = "slurmsched:ckpt;slurmsched:share=0+1" }', MOVED) == ""
    assert "only slurmsched writes it" in said('{ comment = "slurmsched:share=0+1" }', OWN)


@pytest.mark.parametrize("change", ['tres_per_job = "gres:gpu:4"', 'comment = "x"', 'req_nodes = ""', "min_nodes = 2"])
def test_a_job_with_gpus_of_its_own_changes_as_ever(said, change):
    assert said(f"{{ {change} }}", OWN) == ""


@pytest.mark.parametrize(
    "request_",
    ["slot", "gres:slot", "gres/slot", "gpu:1,slot", "gres:gpu:1,gres:slot", "SLOT:i0:1", "gres:Slot=1", "slot(S:0)"],
)
@pytest.mark.parametrize("field", ["tres_per_node", "tres_per_job", "tres_per_socket", "tres_per_task", "gres"])
def test_slots_are_refused_in_any_spelling_with_or_without_a_count(said, request_, field):
    assert "slots are not for users" in said(f'{{ {field} = "{request_}" }}')
    assert "slots are not for users" in said(f'{{ {field} = "{request_}" }}', OWN)


@pytest.mark.parametrize("request_", ["gpu:1", "gres:slots:1", "gres:my-slot", "gres:slot_b:2"])
def test_what_is_only_spelled_like_a_slot_is_no_slot(said, request_):
    assert said(f'{{ tres_per_node = "{request_}" }}') == ""


@pytest.mark.parametrize(("user", "uid"), [("slurmsched", 78), ("slurm-sched", 77)])
def test_the_daemons_user_is_who_has_that_name_and_nobody_else(said, user, uid):
    script = SCRIPT.read_text().replace('DAEMON_USER = "slurmsched"', f'DAEMON_USER = "{user}"')
    change = ('{ comment = "slurmsched:share=0" }', OWN)
    allowed = {who for who in (77, 78, 1001) if said(*change, uid=who, script=script) == ""}
    assert allowed == {uid}


@pytest.mark.parametrize("user", ["slurm.sched", "slurm.*", "[^:]*", "%w+", "nobody-here"])
def test_a_name_that_is_a_pattern_matches_nobody(said, user):
    script = SCRIPT.read_text().replace('DAEMON_USER = "slurmsched"', f'DAEMON_USER = "{user}"')
    change = ('{ comment = "slurmsched:share=0" }', OWN)
    assert all("only slurmsched writes it" in said(*change, uid=who, script=script) for who in (77, 78, 1001))
