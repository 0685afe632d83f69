"""Ada's machine: what plans in tests are made on, the same for all of them."""

from typing import Any

from rlaunch import flow
from rlaunch.model import Context, Workspace
from rlaunch.secrets import Keyring
from rlaunch.testing.fakes import FakeClock, FakeShell

CONTEXT = Context(
    user="ada",
    now="2026-01-02T03:04:05.000Z",
    run_id="0a1b2c3d",
    home="/home/ada",
    state="/home/ada/.local/state/rlaunch",
    cwd="/home/ada/code",
    python="/opt/venv/bin/python",
    version="0.1.0",
    workspace=Workspace("/home/ada/code", "2d9feef" + "0" * 33, (), "d" * 64),
)


def world(context: Context = CONTEXT) -> flow.World:
    """Return a machine that can neither run nor record anything."""
    return flow.World(
        FakeShell(), FakeClock(), context, Keyring("", {}), {}, lambda line: None, _no_record, set()
    )


def _no_record() -> Any:
    raise AssertionError("planning opened the run record")
