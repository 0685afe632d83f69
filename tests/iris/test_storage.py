"""The store is tried before anything is sent, once, with the keys that the job will have."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import pytest

from rlaunch.cluster import PreflightQuery
from rlaunch.errors import ClusterError
from rlaunch.model import Finding, Plan
from rlaunch_iris import preflight, storage
from rlaunch_iris.cluster import Iris

from .conftest import Maker


def planned(make: Maker, **settings: Any) -> Plan:
    """Plan a toy run whose nodes nobody looks at."""
    return make.plan(make.run(kubeconfig="", **settings))


def check(
    plan: Plan, *, skip: str = "", secrets: Mapping[str, str] | None = None
) -> dict[str, Finding]:
    """Ask preflight about the store alone; `secrets` are the values that submit will get."""
    others = frozenset(Iris.checks) - {"storage"} | {skip}
    query = PreflightQuery(plan, skip=others, collect=lambda: secrets or {})

    def connect() -> Any:
        raise AssertionError("asked")

    return {f.code: f for f in preflight.check(query, connect, "2026-01-02T03:04:05Z")}


class Refusing(http.server.BaseHTTPRequestHandler):
    """A store that takes nobody's keys, and notes whose they were."""

    asked: ClassVar[list[str]] = []
    hold: ClassVar[threading.Event] = threading.Event()
    """Answers wait for it."""

    def do_PUT(self) -> None:  # the name http.server calls
        """Refuse."""
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.asked.append(self.headers["Authorization"])
        self.hold.wait(5)
        body = b"<Error><Code>NoSuchBucket</Code></Error>"
        self.send_response(404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Say nothing."""


@pytest.fixture
def refusing() -> Iterator[str]:
    """The address of a store that refuses."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Refusing.asked.clear()
    Refusing.hold.set()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    Refusing.hold.set()
    server.shutdown()
    server.server_close()


def test_store_is_tried_with_the_keys_that_submit_gets(
    make: Maker, refusing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the secrets file says counts, not the shell; a refusal is an error, and `storage` skips it."""
    monkeypatch.setenv("CW_KEY_ID", "SHELL")
    monkeypatch.setenv("CW_KEY_SECRET", "shell")
    plan = planned(make, storage={"outside_endpoint": refusing, "addressing": "path"})
    secrets = {"CW_KEY_ID": "FILE", "CW_KEY_SECRET": "file"}
    found = check(plan, secrets=secrets)
    assert "404 NoSuchBucket" in found["iris.storage-refused"].message
    assert ["Credential=FILE/" in line for line in Refusing.asked] == [True]
    assert check(plan, skip="storage", secrets=secrets) == {}
    assert check(plan) == {}  # no keys for the job: `core.secret-missing` says so
    assert len(Refusing.asked) == 1


def test_a_store_that_is_slow_to_refuse(
    make: Maker, refusing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is sent while the store has not said yes: a late answer is an error, and can be skipped."""
    monkeypatch.setattr(preflight, "LIMIT_S", 0.3)
    Refusing.hold.clear()
    plan = planned(make, storage={"outside_endpoint": refusing, "addressing": "path"})
    secrets = {"CW_KEY_ID": "a", "CW_KEY_SECRET": "b"}
    late = check(plan, secrets=secrets)["iris.check-late"]
    assert (late.level, late.place) == ("error", "storage")
    assert late.hint == "`--skip-preflight storage` goes without this check"
    assert check(plan, skip="storage", secrets=secrets) == {}


def test_preflight_notes_a_store_that_is_not_reached(make: Maker) -> None:
    """A store with another way in is a note: the job may reach it."""
    plan = planned(make, storage={"outside_endpoint": "http://127.0.0.1:9", "addressing": "path"})
    found = check(plan, secrets={"CW_KEY_ID": "a", "CW_KEY_SECRET": "b"})
    assert found["iris.storage-untried"].level == "note"


def test_store_that_is_not_reached(make: Maker) -> None:
    """A store that this machine does not reach is said and is no error: the job has another way."""
    run = make.run(storage={"outside_endpoint": "http://127.0.0.1:9", "addressing": "path"})
    keys = {"CW_KEY_ID": "a", "CW_KEY_SECRET": "b"}
    assert "nobody listens there" in storage.probe(make.plan(run), keys)
    assert storage.probe(make.plan(run), {}) == ""


def test_store_that_cannot_be_one(make: Maker) -> None:
    """An endpoint that is no URL is an error before anything is sent."""
    run = make.run(storage={"outside_endpoint": "cwobject.com"})
    with pytest.raises(ClusterError, match=r"iris\.storage-refused.*is not an http or https URL"):
        storage.probe(make.plan(run), {"CW_KEY_ID": "a", "CW_KEY_SECRET": "b"})
