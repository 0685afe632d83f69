"""The command line, called as a program calls it, in a home of its own, on a scripted cluster."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rlaunch.cli import main

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RECIPE = str(ROOT / "docs" / "recipes" / "smoke.yaml")
LAUNCH = (
    "--cluster", "scripted", "--rl_config", RECIPE, "--model_path", "toy/grpo",
    "--train_data", '["builtin/sums"]', "--num-nodes", "2",
)  # fmt: skip


class Said(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on stdout; anything else on it is a failure."""
        return json.loads(self.out)


class Scripted(NamedTuple):
    """The scripted scheduler: what it will say, and what it was asked."""

    folder: Path

    def states(self, *states: Sequence[Any]) -> None:
        """Say these states, one a poll; each is (state, reason, attempt, exit code)."""
        (self.folder / "states.json").write_text(json.dumps(states))

    def lines(self, *lines: Sequence[Any]) -> None:
        """Have these log lines; each is (text, rank, attempt)."""
        (self.folder / "lines.json").write_text(json.dumps(lines))

    def switch(self, name: str) -> None:
        """Make it `full` or `down`, or press Ctrl-C `early` in preflight or once the job was `sent`."""
        (self.folder / name).write_text("")

    @property
    def asked(self) -> list[str]:
        """What it was asked to do."""
        path = self.folder / "asked.txt"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give every test a home, a width of 80 columns, and no settings of whoever runs it."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("USER", "tester")
    for name in (
        "XDG_STATE_HOME",
        "XDG_CONFIG_HOME",
        "RLAUNCH_SECRETS_ENV",
        "NO_COLOR",
        "HF_TOKEN",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(ROOT)
    return home


@pytest.fixture
def scripted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scripted:
    """Install the scripted cluster."""
    folder = tmp_path / "scripted"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(HERE / "scripted"))
    monkeypatch.setenv("SCRIPTED_DIR", str(folder))
    return Scripted(folder)


@pytest.fixture
def rl(capfd: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """Run one command line; returns exit code, stdout and stderr."""

    def run(*words: str) -> Said:
        capfd.readouterr()
        code = main(list(words))
        out, err = capfd.readouterr()
        return Said(code, out, err)

    return run


@pytest.fixture
def launch() -> tuple[str, ...]:
    """The canonical launch on the scripted cluster."""
    return LAUNCH
