"""What `rlaunch doctor` looks at. Each check is one function; none changes anything."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from rlaunch import folders
from rlaunch.errors import RlaunchError
from rlaunch.shapes import Check
from rlaunch.shell import Shell

LIBRARIES = ("typer", "pydantic", "PyYAML", "pluggy", "stevedore")


def checks(environ: Mapping[str, str] | None = None, shell: Shell | None = None) -> Iterator[Check]:
    """Yield all checks, from the interpreter outwards."""
    env = dict(os.environ if environ is None else environ)
    run = shell or Shell()
    yield python()
    yield from versions()
    yield from plugins()
    yield from profiles()
    yield from state(env)
    yield ray_token(env)
    yield git(run)
    yield job_ray(run)


def _good(name: str, detail: str) -> Check:
    return Check(name, True, detail, "ok")


def _bad(name: str, detail: str) -> Check:
    return Check(name, False, detail, "error")


def python() -> Check:
    """Check that the interpreter is new enough."""
    version = ".".join(map(str, sys.version_info[:3]))
    good = sys.version_info >= (3, 11)
    detail = f"{version} at {sys.executable}"
    return (
        _good("python", detail)
        if good
        else _bad("python", f"{detail}: rlaunch needs 3.11 or newer")
    )


def versions(libraries: tuple[str, ...] = LIBRARIES) -> Iterator[Check]:
    """Tell the versions of rlaunch and of what it stands on."""
    from importlib.metadata import PackageNotFoundError, version

    from rlaunch import __version__

    yield _good("rlaunch", f"{__version__} at {Path(__file__).parent}")
    for name in libraries:
        try:
            yield _good(name, version(name))
        except PackageNotFoundError:
            yield _bad(name, "not installed")


def plugins() -> Iterator[Check]:
    """Import every plugin; one that fails is told with its distribution and exception."""
    from rlaunch import discovery

    failed = {(f.name, f.distribution): f.error for f in discovery.broken()}
    for group in (discovery.CLUSTERS, discovery.PLUGINS):
        for name, several in discovery.claims(group).items():
            who = " and ".join(claim.distribution for claim in several)
            label = f"plugin {name}"
            if len(several) > 1:
                yield _bad(label, f"claimed by {who}; uninstall one of them")
            elif error := failed.get((name, several[0].distribution)):
                yield _bad(label, f"{who} does not import: {error}")
            else:
                yield _good(label, f"{several[0].module} of {who}")


def profiles() -> Iterator[Check]:
    """Validate every profile that an installed plugin ships."""
    from rlaunch import choose, discovery, flow

    try:
        world = flow.World.here(artifacts=False)
    except RlaunchError as error:
        yield _bad("configuration", error.findings[0].message)
        return
    for name in discovery.names():
        try:
            chosen = choose.choose(world, name)
        except RlaunchError as error:
            yield _bad(f"profile {name}", "; ".join(f.message for f in error.findings))
        else:
            yield _good(f"profile {name}", f"`{chosen.layered.profile.name}` is valid")


def state(env: Mapping[str, str]) -> Iterator[Check]:
    """Check the state directory and the run record."""
    from rlaunch.runs import Runs, file_system

    folder = Path(folders.state(env))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".probe-{os.getpid()}"
        probe.write_text("")
        probe.unlink()
    except OSError as error:
        yield _bad("state", f"{folder} cannot be written: {error.strerror}")
        return
    yield _good("state", f"{folder} ({file_system(str(folder)) or 'unknown file system'})")
    record = Runs(str(folder / "runs.sqlite"))
    count = len(record.list(-1))
    if record.findings:
        yield Check("run record", False, record.findings[0].message, "warning")
    else:
        yield _good("run record", f"{count} runs in {record.path}")


def ray_token(env: Mapping[str, str]) -> Check:
    """Warn of a Ray token in the home: Ray then asks for it wherever the mode is not set explicitly."""
    path = Path(folders.home(env), ".ray", "auth_token")
    if not path.exists():
        return _good("ray token", "no ~/.ray/auth_token")
    detail = (
        "~/.ray/auth_token is present; rlaunch sets RAY_AUTH_MODE itself, other programs may not"
    )
    return Check("ray token", True, detail, "warning")


def git(shell: Shell) -> Check:
    """Check that git answers: the workspace is found by it."""
    done = shell.run(["git", "--version"], timeout=10)
    if done.code:
        return Check(
            "git", False, "not found; the current directory is taken for the workspace", "warning"
        )
    return _good("git", done.out.strip())


def job_ray(shell: Shell, python: str = sys.executable) -> Check:
    """Check that the interpreter of local jobs has Ray, without importing it here."""
    question = "import importlib.metadata as m; print(m.version('ray'))"
    done = shell.run([python, "-c", question], timeout=30)
    if done.code:
        return Check(
            "ray", True, f"{python} has none; `--set python=…` names a job's interpreter", "warning"
        )
    return _good("ray", f"{done.out.strip()} in {python}")
