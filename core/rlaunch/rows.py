"""The table of the run record, and its rows."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rlaunch.model import JobRef

TABLE = """
CREATE TABLE IF NOT EXISTS runs (
    run_id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    cluster TEXT NOT NULL,
    native TEXT NOT NULL DEFAULT '',
    user TEXT NOT NULL DEFAULT '',
    identity TEXT NOT NULL DEFAULT '',
    recipe TEXT NOT NULL DEFAULT '',
    recipe_sha256 TEXT NOT NULL DEFAULT '',
    commit_id TEXT NOT NULL DEFAULT '',
    dirty TEXT NOT NULL DEFAULT '[]',
    nodes INTEGER NOT NULL DEFAULT 0,
    allow TEXT NOT NULL DEFAULT '[]',
    intended_at TEXT NOT NULL,
    submitted_at TEXT,
    failed_at TEXT,
    failure TEXT NOT NULL DEFAULT '',
    ended_at TEXT,
    state TEXT,
    exit_code INTEGER,
    plan TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS runs_name ON runs (name, intended_at);
CREATE INDEX IF NOT EXISTS runs_native ON runs (cluster, native);
"""

_COLUMNS = (
    "run_id, name, cluster, native, user, identity, recipe, recipe_sha256, commit_id, dirty, nodes,"
    " allow, intended_at, submitted_at, failed_at, failure, ended_at, state, exit_code, plan"
)


class Row(NamedTuple):
    """One recorded run. Times are RFC 3339 in UTC, None where it has not happened."""

    run_id: str
    name: str
    cluster: str
    native: str
    """The scheduler's id; empty until `submitted`."""
    user: str
    identity: str
    recipe: str
    """Path of the recipe, as it was resolved."""
    recipe_sha256: str
    commit: str
    dirty: tuple[str, ...]
    nodes: int
    allow: tuple[str, ...]
    """Codes that were waived with `--allow`."""
    intended_at: str
    submitted_at: str | None
    failed_at: str | None
    """When the submit itself failed."""
    failure: str
    ended_at: str | None
    state: str | None
    """The state at the end."""
    exit_code: int | None
    plan: Mapping[str, Any]
    """The whole plan document (the profile is in it)."""

    @property
    def ref(self) -> JobRef:
        """Return the job's reference; its native id is empty before `submitted`."""
        return JobRef(self.cluster, self.native, self.run_id)

    @property
    def open(self) -> bool:
        """True while the record knows of no end: the run may be going on."""
        return self.ended_at is None and self.failed_at is None

    @property
    def unsent(self) -> bool:
        """True where the submit failed without a doubt: no scheduler ever had the run, nor will have."""
        return self.failed_at is not None and not self.native


UNSENT = "(failed_at IS NOT NULL AND (native IS NULL OR native = ''))"
"""`Row.unsent`, in SQL."""
INSERT = f"INSERT OR REPLACE INTO runs ({_COLUMNS}) VALUES ({', '.join('?' * len(Row._fields))})"  # noqa: S608  # column names are ours


def values(plan: Mapping[str, Any], now: str) -> tuple[Any, ...]:
    """Return the row of a plan document, in the order of `_COLUMNS`."""
    run, recipe, workspace = plan["run"], plan["run"]["recipe"], plan["run"]["workspace"]
    head = (
        run["name"],
        run["cluster"],
        "",
        run["user"],
        run["identity"],
        recipe["path"],
        recipe["sha256"],
    )
    checkout = (workspace["commit"], json.dumps(workspace["dirty"]), run["nodes"])
    text = json.dumps(plan, ensure_ascii=False, separators=(",", ":"))
    return (
        run["id"],
        *head,
        *checkout,
        json.dumps(run["allow"]),
        now,
        *(None, None, ""),
        *(None,) * 3,
        text,
    )


def select(
    base: sqlite3.Connection, where: str, wanted: Sequence[Any], limit: int = -1
) -> tuple[Row, ...]:
    words = f"SELECT {_COLUMNS} FROM runs WHERE {where} ORDER BY intended_at DESC, rowid DESC LIMIT {limit}"  # noqa: S608  # `where` is ours
    return tuple(_row(fields) for fields in base.execute(words, tuple(wanted)))


def _row(fields: Sequence[Any]) -> Row:
    row = Row(*fields)
    return row._replace(
        dirty=tuple(json.loads(fields[9])),
        allow=tuple(json.loads(fields[11])),
        plan=json.loads(row.plan),  # type: ignore[arg-type]  # text in the table
    )
