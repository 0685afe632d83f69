"""The run record: what was launched, from what, where, by whom, and how it ended (SQLite).

Several rlaunch processes use it at once: every call opens the file, does one short transaction and
closes it. The record helps people and is never the truth about liveness (that is the scheduler), so
trouble with it is a warning and never stops a launch: a corrupt file is moved aside, a locked or
unwritable one is skipped. What it does refuse is what only it can know: a run id submitted before,
and two runs of one name at once.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from rlaunch.codes import Code
from rlaunch.errors import RlaunchError
from rlaunch.model import Finding, JobRef
from rlaunch.rows import INSERT, TABLE, UNSENT, Row, select, values

T = TypeVar("T")

VERSION = 1
"""Of the tables, kept in `PRAGMA user_version`; a newer one is left alone."""

__all__ = ["Row", "Runs", "file_system"]

BUSY_S = 5.0
"""How long a call waits for another process's transaction."""

NETWORK = frozenset((
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "gpfs", "beegfs", "beegfs_nodev", "9p", "afs",
    "ceph", "glusterfs", "pvfs2", "orangefs", "panfs", "wekafs", "virtiofs",
))  # fmt: skip
"""File systems of several machines, where WAL's shared memory does not work (SQLite's own manual)."""


class Runs:
    """The record at `path` (`$XDG_STATE_HOME/rlaunch/runs.sqlite`).

    `warn` takes a finding for each kind of trouble; by default they collect in `findings`. Where the
    record is what was asked for, `strict` makes a record that cannot be read an error: `find`, `list`
    and `of_name` then raise RlaunchError instead of answering as an empty record would.
    """

    def __init__(
        self,
        path: str,
        warn: Callable[[Finding], object] | None = None,
        *,
        strict: bool = False,
    ) -> None:
        self.path = Path(path)
        self.findings: list[Finding] = []
        self._warn = warn or self.findings.append
        self._strict = strict

    def intend(self, plan: Mapping[str, Any], now: str, *, again: bool = False) -> None:
        """Write the row of intent, before anything is sent. `plan` is the plan document.

        Raises RlaunchError `plan.submitted` when the run id is recorded already (unless `again`, or
        its submit had failed), `run.live` when another run of that name has no recorded end. The two
        are judged in the transaction that writes the row, so of two processes one wins.
        """
        run = plan["run"]

        def work(base: sqlite3.Connection) -> None:
            old = select(base, "run_id = ?", (run["id"],))
            if old and not again and old[0].failed_at is None:
                raise _repeated(old[0])
            rivals = select(base, "name = ? AND run_id != ?", (run["name"], run["id"]))
            for rival in rivals:
                if rival.open:
                    raise _live(rival)
            base.execute(INSERT, values(plan, now))

        self._do(work, None)

    def submitted(self, run_id: str, native: str, now: str) -> None:
        """Note that the scheduler took the job as `native`; "absent" seen on its way is taken back."""
        anew: dict[str, Any] = dict.fromkeys(("failed_at", "ended_at", "state", "exit_code"))
        self._set(run_id, native=native, submitted_at=now, failure="", **anew)

    def failed(self, run_id: str, reason: str, now: str) -> None:
        """Note that the submit failed, so the run id may be sent again."""
        self._set(run_id, failed_at=now, failure=reason)

    def ended(self, run_id: str, state: str, exit_code: int | None, now: str) -> None:
        """Note how a run ended; the first recorded end stands."""
        self._set(run_id, only_open=True, ended_at=now, state=state, exit_code=exit_code)

    def find(self, name: str) -> Row | None:
        """Return the newest run of this name (one that was sent, where there is one), or of this id."""
        ways = ("run_id = ?", f"name = ? AND NOT {UNSENT}", "name = ?") if ":" not in name else ()
        return next((row for where in ways for row in self._select(where, (name,), 1)), None)

    def by_ref(self, ref: JobRef) -> Row | None:
        """Return the run that the scheduler knows by this id; never raises, for it was named in full."""
        wanted = (ref.cluster, ref.native)
        found = self._select("cluster = ? AND native = ?", wanted, 1, strict=False)
        return next(iter(found), None)

    def list(self, limit: int = 50, *, open_only: bool = False) -> tuple[Row, ...]:
        """Return recorded runs, newest first."""
        where = "ended_at IS NULL AND failed_at IS NULL" if open_only else "1"
        return self._select(where, (), limit)

    def of_name(self, name: str) -> tuple[Row, ...]:
        """Return all runs of one name, newest first."""
        return self._select("name = ?", (name,), -1)

    def _select(
        self, where: str, wanted: Sequence[Any], limit: int, *, strict: bool = True
    ) -> tuple[Row, ...]:
        def work() -> tuple[Row, ...]:
            try:
                self.path.stat()
            except (FileNotFoundError, NotADirectoryError):
                return ()
            return self._once(lambda base: select(base, where, wanted, limit), "BEGIN")

        return self._guard(work, (), "read", strict=strict and self._strict)

    def _set(self, run_id: str, *, only_open: bool = False, **fields: Any) -> None:
        sets = ", ".join(f"{name} = ?" for name in fields)
        guard = " AND ended_at IS NULL" if only_open else ""
        words = f"UPDATE runs SET {sets} WHERE run_id = ?{guard}"  # noqa: S608  # column names are ours
        self._do(lambda base: base.execute(words, (*fields.values(), run_id)), None)

    def _do(self, work: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        """Run one transaction that writes; trouble becomes a warning and `otherwise`."""
        return self._guard(lambda: self._once(work), otherwise, "written", strict=False)

    def _guard(self, once: Callable[[], T], otherwise: T, done: str, *, strict: bool) -> T:
        """Do it, once more after a corrupt file was moved aside; trouble becomes a finding."""

        def tell(finding: Finding) -> None:
            if strict:
                raise RlaunchError(finding._replace(level="error"))
            self._warn(finding)

        try:
            try:
                return once()
            except sqlite3.DatabaseError as error:
                if type(error) is not sqlite3.DatabaseError:
                    raise  # busy, full, … (below), or a wrong statement of ours
                if (moved := self._set_aside(str(error))) is not None:
                    tell(moved)
                return once()
        except (sqlite3.OperationalError, OSError) as error:
            tell(_trouble(self.path, error, done))
            return otherwise

    def _once(self, work: Callable[[sqlite3.Connection], T], begin: str = "BEGIN IMMEDIATE") -> T:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None)) as base:
            self._prepare(base)
            base.execute(begin)
            try:
                answer = work(base)
            except BaseException:
                base.execute("ROLLBACK")
                raise
            base.execute("COMMIT")
            return answer

    def _prepare(self, base: sqlite3.Connection) -> None:
        """Set the journal and make the tables, once per file; SQLite waits for nobody who does the same."""
        if _version(base) == VERSION:
            return
        with _alone(self.path):
            if (version := _version(base)) == VERSION:
                return  # another process was faster
            if version > VERSION:
                raise sqlite3.OperationalError(f"its version {version} is newer than {VERSION}")
            mode = "DELETE" if file_system(str(self.path.parent)) in NETWORK else "WAL"
            base.execute(f"PRAGMA journal_mode = {mode}")
            base.executescript(f"BEGIN IMMEDIATE; {TABLE} PRAGMA user_version = {VERSION}; COMMIT;")

    def _set_aside(self, reason: str) -> Finding | None:
        """Move a corrupt record away; of several processes that find it, one moves it and is told so."""
        with _alone(self.path):
            if _sound(self.path):
                return None  # another process was faster
            number = 1
            while (aside := self.path.with_name(f"{self.path.name}.corrupt-{number}")).exists():
                number += 1
            for suffix in ("-wal", "-shm"):
                self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
            self.path.rename(aside)
        return Finding(
            "warning",
            "core.run-record-corrupt",
            f"the run record was corrupt ({reason}) and was moved aside; a new one is begun",
            str(aside),
            "runs of the old record are named as `cluster:id`",
        )


def file_system(path: str, mounts: str = "/proc/mounts") -> str:
    """Return the type of the file system that holds `path` (`ext4`, `nfs4`, …); empty if unknown."""
    try:
        lines = Path(mounts).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    real = os.path.realpath(path)
    best, kind = "", ""
    for line in lines:
        fields = line.split(" ")
        point = fields[1].replace("\\040", " ")
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold what only one process may do to the whole file."""
    import fcntl

    with path.with_name("runs.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _version(base: sqlite3.Connection) -> int:
    return int(base.execute("PRAGMA user_version").fetchone()[0])


def _sound(path: Path) -> bool:
    try:
        with closing(sqlite3.connect(path, timeout=BUSY_S)) as base:
            (answer,) = base.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.DatabaseError:
        return False
    return bool(answer == "ok")


def _repeated(row: Row) -> RlaunchError:
    when = f"at {row.submitted_at}" if row.submitted_at else f"(intended at {row.intended_at})"
    return RlaunchError.of(
        "plan.submitted",
        f"the run `{row.run_id}` was submitted before {when}",
        place=f"{row.cluster}:{row.native}" if row.native else "",
        hint=f"see it with `rlaunch status {row.run_id}`; make a new plan to run it once more",
    )


def _live(row: Row) -> RlaunchError:
    return RlaunchError.of(
        "run.live",
        f"a run named `{row.name}` is on `{row.cluster}` already: `{row.run_id}`",
        place="--job-name",
        hint=f"choose another `--job-name`, or end it first: `rlaunch stop {row.run_id}`",
    )


def _trouble(path: Path, error: Exception, done: str) -> Finding:
    locked = "locked" in str(error) or "busy" in str(error)
    so = ", so this is not recorded" if done == "written" else ""
    return Finding(
        "warning",
        "core.run-record-locked" if locked else "core.run-record-unusable",
        f"the run record cannot be {done}{so}: {error}",
        str(path),
        "runs are then named as `cluster:id`; `rlaunch doctor` looks at the record",
    )


CODES = (
    Code(
        "core.run-record-corrupt",
        "The run record was not a sound SQLite file and was moved aside.\n\n"
        "The record is never the truth about liveness, so a launch goes on with a new one; a command that\n"
        "looks up runs ends with 3 this once. Jobs of the old record are named as `cluster:id`.",
        "warning",
    ),
    Code(
        "core.run-record-locked",
        "Another process held the run record for more than five seconds.\n\n"
        "A launch goes on unrecorded; a command that looks up runs ends with 3. Transactions take\n"
        "milliseconds, so a long lock is a hanging process or a file system without working locks.",
        "warning",
    ),
    Code(
        "core.run-record-unusable",
        "The run record cannot be opened, read, written or understood.\n\n"
        "A launch goes on unrecorded; a command that looks up runs ends with 3, for the record is not\n"
        "empty, and `CLUSTER:ID` asks a cluster about any job. Usual causes: a full or read-only home, or\n"
        "a record that a newer rlaunch made.",
        "warning",
    ),
)
