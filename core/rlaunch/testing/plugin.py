"""The pytest plugin of the kit: `pytest_plugins = ["rlaunch.testing.plugin"]` in the top conftest.

It gives the fixtures `golden`, `fake_clock`, `fake_shell` and `own_home`, the option `--update-golden`,
the marker `gang`, and fails a whole run of golden tests that leaves a golden file unused.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

for part in ("plan_promises", "answer_promises", "job_promises", "golden", "kit"):
    pytest.register_assert_rewrite(
        f"rlaunch.testing.{part}"
    )  # so that a failed promise shows values

from rlaunch.testing.fakes import FakeClock, FakeShell  # noqa: E402  # rewritten from here on
from rlaunch.testing.golden import Golden  # noqa: E402

_KEY: pytest.StashKey[Golden] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--update-golden`."""
    parser.addoption(
        "--update-golden", action="store_true", help="write golden files instead of comparing them"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and the golden files of this session."""
    config.addinivalue_line("markers", "gang: starts a real job; many seconds long")
    config.stash[_KEY] = Golden(config.getoption("update_golden"))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int | pytest.ExitCode) -> None:
    """Fail a complete, green run that left golden files unused; remove them when updating."""
    config = session.config
    part = any("::" in str(a) for a in config.args) or config.option.keyword
    if exitstatus != pytest.ExitCode.OK or part or not session.testscollected:
        return
    golden = config.stash[_KEY]
    for path in golden.orphans():
        if golden.update:
            path.unlink()
            continue
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.write_line(f"no test asks for the golden file {path}", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with the file of that name in `golden/` beside the top conftest, or beside the
    test where the test lies in a folder `golden` itself."""
    here = Path(str(request.node.path)).parent
    folder = here if here.name == "golden" else here / "golden"
    store = request.config.stash[_KEY]
    return lambda name, text: store.check(folder, name, text)


@pytest.fixture
def fake_clock() -> FakeClock:
    """A clock that only `sleep` moves."""
    return FakeClock()


@pytest.fixture
def fake_shell() -> FakeShell:
    """A shell that nobody has taught an answer: every command fails the test."""
    return FakeShell()


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home and XDG directories of the test's own; returns the home."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name, folder in (("STATE", ".local/state"), ("CONFIG", ".config"), ("CACHE", ".cache")):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(home / folder))
    for name in ("RLAUNCH_SECRETS_ENV",):
        monkeypatch.delenv(name, raising=False)
    return home
