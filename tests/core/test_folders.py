"""The user's folders: the same ones wherever rlaunch looks for them."""

import os
import re
from pathlib import Path

import pytest
from tests.core.test_runs import NOW, make_document

import rlaunch_slurm_jupiter
from rlaunch import doctor, folders, secrets
from rlaunch.cli import jobs
from rlaunch.runs import Runs
from rlaunch.testing.fakes import FakeClock, FakeShell
from rlaunch.testing.kit import read_profile
from rlaunch.world import World
from rlaunch_iris import observe
from rlaunch_local import places
from rlaunch_slurm_jupiter.cluster import Slurm

ROOT = Path(__file__).parents[2]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home, and a directory to work in that relative base directories would lead into."""
    home, work = tmp_path / "home", tmp_path / "work"
    for folder in (home, work / "state" / "rlaunch", work / "config" / "rlaunch"):
        folder.mkdir(parents=True)
    monkeypatch.chdir(work)
    monkeypatch.setenv("HOME", str(home))
    for name in ("state", "config", "cache"):
        monkeypatch.setenv(f"XDG_{name.upper()}_HOME", name)
    monkeypatch.delenv("RLAUNCH_SECRETS_ENV", raising=False)
    return home


def test_absolute_base_directories_are_taken_and_others_are_not():
    """Unset, empty and relative base directories all give the usual folder below the home."""
    for value in ({}, {"XDG_STATE_HOME": ""}, {"XDG_STATE_HOME": "rel"}, {"XDG_STATE_HOME": "./x"}):
        assert folders.state({"HOME": "/h", **value}) == "/h/.local/state/rlaunch"
    assert folders.state({"HOME": "/h", "XDG_STATE_HOME": "/s"}) == "/s/rlaunch"
    assert folders.config({"HOME": "/h", "XDG_CONFIG_HOME": "/c"}) == "/c/rlaunch"
    assert folders.cache({"HOME": "/", "XDG_CACHE_HOME": "c"}) == "/.cache/rlaunch"


def test_without_a_home_the_system_knows_one():
    """`HOME` may be unset (cron) or empty; the folders are absolute all the same."""
    for environ in ({}, {"HOME": ""}):
        assert folders.home(environ).startswith("/")
        assert folders.state(environ) == f"{folders.home(environ).rstrip('/')}/.local/state/rlaunch"


def test_a_relative_state_directory_is_ignored_by_all(home: Path):
    """Launch, doctor, completion, local runs and SLURM's forgotten runs mean one state directory."""
    state = home / ".local/state/rlaunch"
    assert World.here(artifacts=False).context.state == str(state)
    assert places.state_root() == state
    assert next(doctor.state(os.environ)).detail.startswith(f"{state} (")

    Runs(str(state / "runs.sqlite")).intend(make_document(name="mine"), NOW)
    assert jobs.recorded("mi") == ["mine"]

    shipped = read_profile(rlaunch_slurm_jupiter.PROFILES["jupiter"])
    profile = Slurm.Profile.model_validate({**shipped, "run_dir": "{state}/slurm/{run}"})
    assert Slurm(profile, FakeShell(), FakeClock())._expected("r-1") == f"{state}/slurm/r-1"


def test_a_relative_configuration_directory_is_ignored_by_all(home: Path):
    """`rlaunch.toml` and the secrets file are looked for below the home."""
    Path("config/rlaunch/rlaunch.toml").write_text('cluster = "wrong"', encoding="utf-8")
    Path("config/rlaunch/secrets.env").write_text("WRONG=1", encoding="utf-8")
    mine = home / ".config/rlaunch"
    mine.mkdir(parents=True)
    (mine / "rlaunch.toml").write_text('cluster = "mine"', encoding="utf-8")
    (mine / "secrets.env").write_text("MINE=1", encoding="utf-8")
    assert secrets.default_file(os.environ) == str(mine / "secrets.env")
    assert World.here(artifacts=False).user == {"cluster": "mine"}


def test_a_relative_cache_directory_is_ignored(home: Path):
    """Packed workspaces are kept below the home."""
    assert observe.cache_folder() == f"{home}/.cache/rlaunch/iris"


def test_nobody_else_reads_the_base_directories():
    """A second reader of `XDG_*_HOME` would have rules of its own."""
    reads = re.compile(r"""["']XDG_[A-Z]+_HOME["']""")
    sources = [*ROOT.glob("core/rlaunch/**/*.py"), *ROOT.glob("plugins/*/*/**/*.py")]
    assert [p.name for p in sources if reads.search(p.read_text(encoding="utf-8"))] == [
        "folders.py"
    ]
