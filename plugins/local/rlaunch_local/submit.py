"""Write the run directory and start the supervisor. Decides nothing: everything is in the plan."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import selectors
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from rlaunch.cluster import Report
from rlaunch.errors import ClusterError, UnclearSubmitError
from rlaunch.model import JobRef, Plan, State
from rlaunch_local import places, proc, statefile
from rlaunch_local.clearing import NOT_STARTED, clear_lost, find_supervisor
from rlaunch_local.inheritance import inherited
from rlaunch_local.statefile import SUBMITTING, Snapshot
from rlaunch_local.supervisor import LOG, PORT_BUSY, READY

READY_S = 30.0
"""The supervisor says `ready` 0.1 to 0.3 s after its start; a machine that takes this long is broken."""


def submit_plan(plan: Plan, secrets: Mapping[str, str], report: Report) -> JobRef:
    """Start the run and return its reference once its supervisor lives.

    Raises ClusterError `local.run-exists`, `local.not-written`, `local.artifact-changed` or
    `local.no-supervisor`; nothing runs then, and no secret stays on disk. Raises UnclearSubmitError
    `local.submit-unknown` for a supervisor that is there and has said nothing.
    """
    run, run_dir = plan.run, Path(plan.run.paths.run_dir)
    with suppress(OSError):
        clear_lost(places.state_root() / "local")
    archives = {a.path: _archive(a.path, a.sha256) for a in plan.artifacts}
    start = Snapshot(
        run.id, State.PENDING, SUBMITTING, statefile.now(), supervisor=proc.identify(os.getpid())
    )
    with _writing(run_dir):
        _make(run_dir, start)
    try:
        with _writing(run_dir):
            places.link(run.id, run_dir)
            _write_files(plan, secrets, archives)
        report(f"starting the supervisor of {run.nodes} agents in {run_dir}")
        _start(plan, run_dir)
    except UnclearSubmitError:
        raise  # a supervisor that is only slow needs its files
    except ClusterError as error:
        _abandon(plan, run_dir, start, error)
        raise
    return JobRef(run.cluster, run.id, run.id)


@contextmanager
def _writing(run_dir: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ClusterError.of(
            "local.not-written", f"the run directory cannot be written: {error.strerror or error}",
            place=str(error.filename or run_dir), hint="`--set run_dir=DIR` places it elsewhere",
        ) from None  # fmt: skip


def _abandon(plan: Plan, run_dir: Path, start: Snapshot, error: ClusterError) -> None:
    """Leave a run that never began with an end, and without secrets."""
    for secret in plan.secret_files:
        (run_dir / secret.path).unlink(missing_ok=True)
    message = error.findings[0].message
    end = start._replace(state=State.FAILED, reason=NOT_STARTED, detail=message, supervisor=None)
    with suppress(OSError):
        statefile.write(run_dir, end._replace(since=statefile.now()))


def _archive(name: str, sha256: str) -> bytes:
    from rlaunch.zipapps import build

    data = build(name)
    if hashlib.sha256(data).hexdigest() != sha256:
        raise ClusterError.of(
            "local.artifact-changed", f"`{name}` is not the one that the plan was made with",
            place=name, hint="make the plan again: the installed rlaunch has changed since",
        )  # fmt: skip
    return data


def _make(run_dir: Path, start: Snapshot) -> None:
    """Make the run directory with its first state in it: whoever finds one, finds a state."""
    run_dir.parent.mkdir(parents=True, exist_ok=True)
    if run_dir.is_dir() and not any(run_dir.iterdir()):
        run_dir.chmod(0o700)  # an empty directory is a place, not a run
        statefile.write(run_dir, start)
        return
    fresh = run_dir.with_name(f".{start.run}.{os.getpid()}")
    try:
        fresh.mkdir(mode=0o700)
        statefile.write(fresh, start)
        if run_dir.exists() or run_dir.is_symlink():
            raise FileExistsError
        fresh.rename(run_dir)  # not over one that is no longer empty
    except OSError as error:
        shutil.rmtree(fresh, ignore_errors=True)
        if error.errno not in {None, errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR}:
            raise
        raise ClusterError.of(
            "local.run-exists", f"the run directory `{run_dir}` holds a run already",
            place=str(run_dir), hint="make a new plan: a run id is used once",
        ) from None  # fmt: skip


def _write_files(plan: Plan, secrets: Mapping[str, str], archives: Mapping[str, bytes]) -> None:
    from rlaunch.documents import plan_to_json

    run_dir = Path(plan.run.paths.run_dir)
    document = json.dumps(plan_to_json(plan), indent=1) + "\n"
    _write(run_dir, "plan.json", document.encode(), 0o600)
    for file in plan.files:
        _write(run_dir, file.path, file.content.encode("utf-8", "surrogateescape"), file.mode)
    for secret in plan.secret_files:
        values = {name: secrets[name] for name in secret.names if name in secrets}
        _write(run_dir, secret.path, json.dumps(values).encode(), secret.mode)
    place = Path(plan.run.paths.artifacts)
    place.mkdir(parents=True, exist_ok=True)
    for name, data in archives.items():
        _write(place, name, data, 0o600)
    Path(plan.run.paths.data).mkdir(parents=True, exist_ok=True)
    Path(plan.run.paths.rendezvous).mkdir(parents=True, exist_ok=True)


def _write(root: Path, name: str, data: bytes, mode: int) -> None:
    """Write one file of the plan below `root`, with its mode from the first byte on."""
    relative = PurePosixPath(name)
    if relative.is_absolute() or ".." in relative.parts:
        raise ClusterError.of(
            "local.not-written", f"`{name}` would lie outside the run directory", place=name,
            hint="a plan's paths are relative to the root of their place",
        )  # fmt: skip
    path = root / relative
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(handle, "wb") as file:
        os.fchmod(handle, mode)  # whatever the umask says
        file.write(data)


def _environment(plan: Plan) -> dict[str, str]:
    """Return the supervisor's environment: what the job inherits, and where its own code lies."""
    import rlaunch
    import rlaunch_local

    roots = [str(Path(str(m.__file__)).parent.parent) for m in (rlaunch_local, rlaunch)]
    named = inherited(plan.native["inherit"], os.environ)
    return {**named, "PYTHONPATH": os.pathsep.join(dict.fromkeys(roots))}


def _start(plan: Plan, run_dir: Path) -> None:
    """Start the supervisor in a session of its own and wait until it says that it lives."""
    argv = list(plan.native["supervisor"])
    with (run_dir / LOG).open("ab") as log:
        try:
            child = subprocess.Popen(
                argv,
                cwd="/",
                env=_environment(plan),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        except OSError as error:
            raise _no_supervisor(
                f"`{argv[0]}` cannot be started: {error.strerror}", run_dir
            ) from None
    with child:  # it leaves at once, its child is the supervisor
        said = _first_line(child)
    if said == PORT_BUSY.encode():
        raise ClusterError.of(
            "local.port-busy", "another run took the planned ports in this very moment",
            place="ranks[].guard", hint="plan the run again: free ports are looked for then",
        )  # fmt: skip
    if said is None and find_supervisor(run_dir):
        raise UnclearSubmitError.of(
            "local.submit-unknown", f"the supervisor gave no answer in {READY_S:g} s, and is there",
            place=str(run_dir / LOG), hint=f"`rlaunch status {plan.run.id}` asks again",
        )  # fmt: skip
    if said != READY.encode():
        why = "it did not answer" if said is None else "it ended at once"
        raise _no_supervisor(f"the supervisor did not start: {why}{_tail(run_dir)}", run_dir)


def _first_line(child: subprocess.Popen[bytes]) -> bytes | None:
    assert child.stdout is not None  # noqa: S101  # stdout=PIPE
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        if not selector.select(READY_S):
            with suppress(ProcessLookupError):
                child.kill()
            return None
    return child.stdout.readline()


def _tail(run_dir: Path) -> str:
    lines = (run_dir / LOG).read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return f": {lines[-1]}" if lines else ""


def _no_supervisor(message: str, run_dir: Path) -> ClusterError:
    return ClusterError.of(
        "local.no-supervisor", message, place=str(run_dir / LOG),
        hint=f"`{Path(sys.executable).name} -m rlaunch_local.supervisor` must run by itself",
    )  # fmt: skip
