from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmsched.config import DaemonSettings, DatabaseSettings, Settings, load
from slurmsched.config.catalogue import InvalidValue, catalogue, every_setting
from slurmsched.config.example import example, toml_value
from slurmsched.config.levels import LEVELS
from slurmsched.config.service_settings import NoticesSettings
from slurmsched.config.toml_lines import lines_of
from slurmsched.errors import ConfigError

CANARY = "postgresql://me:canary@localhost/x"


def written(directory: Path, text: str, name: str = "slurmsched.toml") -> Path:
    path = directory / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def complaint(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load(path, {})
    return str(caught.value)


def test_without_files_everything_is_at_its_default(tmp_path):
    loaded = load(written(tmp_path, ""), {})
    assert loaded.settings == Settings()
    assert set(loaded.origins.values()) == {"default"}


def test_a_missing_default_file_means_defaults_but_a_missing_named_file_is_an_error(tmp_path):
    if not Path("/etc/slurmsched").exists():
        assert load(None, {}).settings == Settings()
    assert "cannot be read: No such file" in complaint(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="cannot be read"):
        load(None, {"SLURMSCHED_CONFIG": str(tmp_path / "none.toml")})


def test_the_drop_ins_speak_after_the_file_in_order_of_their_names(tmp_path):
    path = written(tmp_path, "[daemon]\nmode = 'act'\nevery_s = 5\n[power]\norder = true\n")
    written(tmp_path, "[daemon]\nevery_s = 7", "conf.d/20-b.toml")
    written(tmp_path, "[daemon]\nevery_s = 6\nlog_level = 'debug'", "conf.d/10-a.toml")
    loaded = load(None, {"SLURMSCHED_CONFIG": str(path)})
    assert loaded.settings.daemon == DaemonSettings(mode="act", every_s=7.0, log_level="debug")
    assert loaded.origins["daemon.mode"] == f"{path}:2"
    assert loaded.origins["daemon.every_s"] == f"{tmp_path}/conf.d/20-b.toml:2"
    assert [file.name for file in loaded.files] == ["slurmsched.toml", "10-a.toml", "20-b.toml"]


def test_an_unknown_key_is_an_error_with_a_suggestion_and_its_line(tmp_path):
    path = written(tmp_path, "[daemon]\n\nmodee = 'act'")
    assert complaint(path) == f"{path}:3: daemon.modee is no setting: did you mean mode?"


def test_a_setting_of_an_earlier_version_is_answered_with_what_to_write(tmp_path):
    path = written(tmp_path, "[deadline]\nkept_back = 0.8")
    assert complaint(path).startswith(f"{path}:2: deadline.kept_back is no setting any more: remove it: ")
    assert "(deadline.foreseen)" in complaint(path)


def test_an_unknown_section_is_an_error_with_a_suggestion_and_its_line(tmp_path):
    path = written(tmp_path, "# a site\n[deamon]\nmode = 'act'")
    assert complaint(path) == f"{path}:2: [deamon] is no section: did you mean daemon?"


def test_a_list_takes_some_of_its_choices_and_no_other(tmp_path):
    path = written(tmp_path, "[models]\nrising = ['limit', 'gpus']")
    assert load(path, {}).settings.models.rising == ("limit", "gpus")
    path.write_text("[models]\nrising = ['limit', 'users']")
    wanted = "accepted: a list of limit, gpus, cpus, nodes"
    assert complaint(path) == f"{path}:2: models.rising is ['limit', 'users']; {wanted}"


def test_a_key_unlike_any_other_gets_the_list(tmp_path):
    assert "known: listen" in complaint(written(tmp_path, "[metrics]\nzzz = 1"))


def test_a_key_outside_every_section_is_told_where_it_belongs(tmp_path):
    assert "daemon is a section: write [daemon]" in complaint(written(tmp_path, "daemon = 3"))


def test_all_problems_of_all_files_are_reported_at_once(tmp_path):
    path = written(tmp_path, "[daemon]\nmode = 'go'\nevery_s = 0\n[power]\norder = 'yes'")
    written(tmp_path, "[slurm\n", "conf.d/a.toml")
    text = complaint(path)
    assert text.startswith("4 problems in the settings:")
    assert f"{path}:2: daemon.mode is 'go'; accepted: one of observe, advise, act" in text
    assert f"{path}:3: daemon.every_s is 0; accepted: a number from 1 to 3600" in text
    assert f"{path}:5: power.order is 'yes'; accepted: true or false" in text
    assert "conf.d/a.toml: is not TOML" in text


@pytest.mark.parametrize(
    "line",
    ["every_s = '15'", "every_s = true", "every_s = nan", "every_s = inf", "mode = 1", "state_dir = ['/x']"],
)
def test_no_value_is_converted_to_fit(tmp_path, line):
    assert "accepted:" in complaint(written(tmp_path, f"[daemon]\n{line}"))


@pytest.mark.parametrize("line", ["window = 1.0", "window = true", "partitions = 'gpu'", "partitions = [1]"])
def test_whole_numbers_and_lists_are_strict_too(tmp_path, line):
    assert "accepted:" in complaint(written(tmp_path, f"[order]\n{line}"))


def test_a_file_that_is_not_utf8_is_told_so(tmp_path):
    path = tmp_path / "x.toml"
    path.write_bytes(b"\xff\xfe")
    assert "is not TOML" in complaint(path)


def test_a_list_becomes_a_tuple(tmp_path):
    assert load(written(tmp_path, "[order]\npartitions = ['a', 'b']"), {}).settings.order.partitions == ("a", "b")


def test_a_secret_comes_from_the_environment_before_the_credential_before_the_file(tmp_path):
    path = written(tmp_path, "[database]\nurl = 'file'")
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    (credentials / "database-url").write_text("credential\n")
    environ = {"CREDENTIALS_DIRECTORY": str(credentials)}
    loaded = load(path, environ)
    assert (loaded.settings.database.url, loaded.origins["database.url"]) == ("credential", "credential database-url")
    loaded = load(path, environ | {"SLURMSCHED_DATABASE_URL": "variable"})
    assert loaded.settings.database.url == "variable"
    assert loaded.origins["database.url"] == "environment SLURMSCHED_DATABASE_URL"


def test_a_secret_is_in_no_repr_no_record_and_no_complaint(tmp_path):
    settings = Settings(database=DatabaseSettings(url=CANARY), notices=NoticesSettings(webhook=CANARY, apprise=CANARY))
    assert "canary" not in repr(settings)
    assert [setting.shown(settings) for setting in every_setting() if setting.secret] == ["(hidden)"] * 3
    assert "canary" not in complaint(written(tmp_path, f"[database]\nurl = ['{CANARY}']"))


def test_every_default_is_accepted_by_its_own_rules():
    for setting in every_setting():
        value = list(setting.default) if isinstance(setting.default, tuple) else setting.default
        assert setting.check(value) == setting.default, setting.name
        assert setting.help
        assert "\n" not in setting.help


def test_each_setting_has_a_level_and_few_are_basic():
    levels = {setting.name: setting.level for keys in catalogue().values() for setting in keys.values()}
    assert set(levels.values()) == set(LEVELS), {name for name, level in levels.items() if level not in LEVELS}
    shown = [{setting.name for setting in every_setting(level)} for level in LEVELS]
    assert shown[0] < shown[1] < shown[2] == set(levels)
    assert len(shown[0]) < len(levels) / 4


@given(st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.text()), st.dates()))
def test_any_value_is_either_accepted_as_its_type_or_a_misfit(value):
    for setting in every_setting():
        try:
            accepted = setting.check(value)
        except InvalidValue:
            continue
        assert type(accepted) is type(setting.default), setting.name


def test_the_example_file_says_nothing_until_a_line_is_uncommented(tmp_path):
    assert all(not keys for keys in tomllib.loads(example()).values())
    uncommented = [line if line.startswith("# ") else line.removeprefix("#") for line in example().splitlines()]
    loaded = load(written(tmp_path, "\n".join(uncommented)), {})
    assert loaded.settings == Settings()
    assert "default" not in loaded.origins.values()


def test_the_shipped_example_is_the_one_the_code_writes():
    shipped = Path(__file__).parent.parent / "contrib" / "slurmsched.toml"
    assert shipped.read_text() == example()


def test_lines_are_found_under_headers_with_dots_and_quotes():
    lines = lines_of('a.b = 1\n[daemon] # the beat\n"mode" = "x"\n  every_s=1\n')
    assert (lines["a.b"], lines["a"], lines["daemon"], lines["daemon.mode"], lines["daemon.every_s"]) == (1, 1, 2, 3, 4)


def test_values_are_written_as_toml_reads_them():
    for setting in every_setting():
        read = tomllib.loads(f"x = {toml_value(setting.default)}")["x"]
        assert (tuple(read) if isinstance(read, list) else read) == setting.default


def test_there_is_a_section_for_every_field_of_settings():
    assert list(catalogue()) == list(Settings.__dataclass_fields__)
