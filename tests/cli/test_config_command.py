from __future__ import annotations

from click.testing import CliRunner
from json_forms import answer_of

from slurmsched.cli import main
from slurmsched.config import Settings
from slurmsched.config.catalogue import every_setting


def run(*words: str, **environ: str):
    return CliRunner().invoke(main, words, env=environ)


def test_check_says_a_good_file_is_fine(tmp_path):
    file = tmp_path / "s.toml"
    file.write_text("[daemon]\nmode = 'act'\n")
    result = run("config", "check", str(file))
    assert (result.exit_code, result.output) == (0, f"{file}: fine, 1 setting said, the rest at their defaults\n")


def test_check_lists_every_problem(tmp_path):
    file = tmp_path / "s.toml"
    file.write_text("[daemon]\nmoed = 'act'\nevery_s = 0\n")
    result = run("config", "check", str(file))
    assert result.exit_code == 1
    assert "did you mean mode?" in result.stderr
    assert "accepted: a number from 1 to 3600" in result.stderr
    result = run("config", "check", str(file), "--json")
    assert result.exit_code == 1
    assert len(answer_of(["config", "check"], result.stdout)["problems"]) == 2


def test_the_global_option_chooses_the_file(tmp_path):
    file = tmp_path / "s.toml"
    file.write_text("[daemon]\nmode = 'act'\n")
    said = answer_of(["config", "show"], run("--config", str(file), "config", "show", "--json", "--origin").output)
    assert said["settings"]["daemon.mode"] == "act"
    assert said["origins"]["daemon.mode"] == f"{file}:2"
    assert set(said["settings"]) == {setting.name for setting in every_setting()}


def test_settings_are_shown_up_to_a_level():
    shown = answer_of(["config", "show"], run("config", "show", "--level", "power", "--json").output)
    assert set(shown["levels"].values()) == {"basic", "power"}
    assert set(shown["settings"]) == set(shown["levels"]) == {setting.name for setting in every_setting("power")}
    text = run("config", "show", "--level", "basic", "--columns", "SETTING,LEVEL").output
    assert text.splitlines()[1].split() == ["daemon.mode", "basic"]
    assert "slurm.backend" not in text


def test_a_secret_is_hidden_whether_text_or_json():
    for words in (["config", "show"], ["config", "show", "--origin", "--json"]):
        result = run(*words, SLURMSCHED_DATABASE_URL="postgresql://u:canary@h/d")
        assert result.exit_code == 0
        assert "canary" not in result.output
        assert "(hidden)" in result.output
    assert Settings().database.url not in ("(hidden)",)


def test_check_asks_the_parts_that_settings_are_for(tmp_path):
    file = tmp_path / "s.toml"
    file.write_text("[policy]\nordering = 'magic'\n[metrics]\nlisten = '0.0.0.0:80'\n")
    result = run("config", "check", str(file))
    assert result.exit_code == 1
    assert "policy.ordering = 'magic'" in result.stderr
    assert "metrics.listen = '0.0.0.0:80'" in result.stderr


def test_check_says_that_the_power_to_suspend_does_nothing_without_sharing(tmp_path):
    file = tmp_path / "s.toml"
    file.write_text("[power]\nsuspend = true\n")
    result = run("config", "check", str(file))
    assert result.exit_code == 0
    assert "power.suspend does nothing without power.share = true" in result.output


def test_check_says_what_an_ordering_that_is_made_for_jobs_that_yield_cannot_do_without_them(tmp_path):
    file = tmp_path / "s.toml"
    powers = "[power]\norder = true\nrequeue = true\nsteer = true\n[policy]\npreemption = 'lease 20m'\n"
    for name in ("themis", "gavel"):
        file.write_text(f"[policy]\nordering = '{name}'\n")
        assert f"{name} only orders pending jobs" in run("config", "check", str(file)).output
        notes = answer_of(["config", "check"], run("config", "check", str(file), "--json").output)["notes"]
        assert ("gavel sends no job to a type of GPU without power.steer = true" in notes) == (name == "gavel")
        file.write_text(f"{powers}ordering = '{name}'\n")
        assert answer_of(["config", "check"], run("config", "check", str(file), "--json").output)["notes"] == []
