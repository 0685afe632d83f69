"""With `wire.py` and `connect.py` all that knows the Iris client, both generations; what it returns is ours.

Generation A is the client up to 0.2.84 (`terminate`, protobuf statuses), B the one from 0.2.87 on
(`cancel_job`, frozen dataclasses). Only public names are used: `iris.client.IrisClient` to submit and stop,
and to read the stubs that Iris generates from its interface, which are the same in both and never try again
by themselves (the client would, for half an hour). Imported only at
submit, status, logs and stop.
"""

from __future__ import annotations

import inspect
import logging
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

from rlaunch.errors import ClusterError
from rlaunch_iris import troubles, wire
from rlaunch_iris.views import Health, JobView, LogPage, TaskView

T = TypeVar("T")
CALL_S = 30.0
"""One question may take so long; the client by itself would go on for half an hour."""
LAUNCH_S = 200.0
"""Sending 25 MiB may take minutes; the client's own limit for one try is 180 s."""
PAGE = 500
"""Jobs of one answer; the controller gives no more."""
LOG_SERVER = "/system/log-server"
"""The controller passes questions on to it: newer ones under a path of its own, older ones as they come."""
CONNECT_S = 60.0
"""`kubectl port-forward` included."""


def load() -> SimpleNamespace:
    """Import the client; raises ClusterError `iris.client-missing` or `iris.client-broken`."""
    for name in (
        "iris",
        "finelog",
        "finelog.client.log_client",
        "rigging",
    ):  # they log at INFO on stderr, which is ours to speak on
        logging.getLogger(name).setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecations inside the client are not the operator's
        try:
            from connectrpc.code import Code
            from connectrpc.errors import ConnectError
            from iris.cluster import constraints, types
            from iris.rpc import controller_pb2, job_pb2
            from iris.rpc.controller_connect import ControllerServiceClientSync
            from rigging.timing import Duration

            from iris import client as high
            from iris import version
        except ModuleNotFoundError as error:
            raise troubles.client_missing(error) from None
        except Exception as error:  # an installation that does not fit together fails in many ways
            raise troubles.client_broken(error) from error
    return SimpleNamespace(
        high=high, types=types, stub=ControllerServiceClientSync, constraints=constraints,
        jobs=job_pb2, rpc=controller_pb2, Code=Code, ConnectError=ConnectError, Duration=Duration,
        date=version.client_revision_date(),
        generation="B" if hasattr(high.IrisClient, "cancel_job") else "A",
    )  # fmt: skip


def bounded(call: Callable[[], T], seconds: float, what: str) -> T:
    """Return what `call` returns within `seconds`; its thread is left behind after that."""
    box: list[Any] = []

    def work() -> None:
        try:
            box.append((True, call()))
        except BaseException as error:  # noqa: BLE001  # handed to the caller
            box.append((False, error))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    if not box:
        raise troubles.silent(what, seconds)
    fine, value = box[0]
    if not fine:
        raise value
    return value  # type: ignore[no-any-return]  # what the call returned


class Controller:
    """An open connection to one controller. Every method answers or raises ClusterError in bounded time."""

    def __init__(self, iris: SimpleNamespace, url: str, credentials: Any, stack: ExitStack) -> None:
        self._iris, self._credentials, self._stack = iris, credentials, stack
        self.url = url
        self._reader: Any = None
        self._log_reader: Any = None

    @property
    def health(self) -> Health:
        """What client this is, and which controller it talks to."""
        from importlib.metadata import version

        return Health(self.url, version("marin-iris"), self._iris.date, self._iris.generation)

    def close(self) -> None:
        """Close the tunnel, where there is one."""
        for reader in (self._reader, self._log_reader):
            if reader is not None:
                reader.close()
        self._reader = self._log_reader = None
        self._stack.close()

    def job(self, job_id: str) -> JobView | None:
        """Return one job, None where the controller says NOT_FOUND."""
        self._name(job_id)
        request = self._iris.rpc.Controller.GetJobStatusRequest(job_id=job_id)
        found = self._ask(lambda: self._read().get_job_status(request), "the job's state")
        return None if found is None else wire.job_view(found.job)

    def jobs(self, prefix: str) -> dict[str, JobView]:
        """Return all jobs whose id begins with `prefix`: one question for each 500."""
        query = self._iris.rpc.Controller.JobQuery(job_id_prefix=prefix)
        return {job.job_id: job for job in self._list(query)}

    def running(self) -> tuple[JobView, ...]:
        """Return all jobs of everybody that the controller says are running (dispatched, at least)."""
        return self._list(self._iris.rpc.Controller.JobQuery(state_filter="running"))

    def _list(self, query: Any) -> tuple[JobView, ...]:
        views: list[JobView] = []
        query.limit = PAGE
        while True:
            query.offset = len(views)
            request = self._iris.rpc.Controller.ListJobsRequest(query=query)
            page = self._ask(partial(self._read().list_jobs, request), "the list of jobs")
            views.extend(map(wire.job_view, page.jobs if page is not None else ()))
            if page is None or not page.has_more or not page.jobs:
                return tuple(views)

    def tasks(self, job_id: str) -> tuple[TaskView, ...]:
        """Return a job's ranks in order; empty where the job is not there."""
        request = self._iris.rpc.Controller.ListTasksRequest(job_id=job_id)
        found = self._ask(lambda: self._read().list_tasks(request), "the job's tasks")
        tasks = map(wire.task_view, found.tasks if found is not None else ())
        return tuple(sorted(tasks, key=lambda task: task.rank))

    def log_page(
        self, source: str, *, exact: bool, cursor: int, since_ms: int, limit: int
    ) -> LogPage:
        """Return the lines after `cursor` of every stream that `source` begins (or is), oldest first."""
        from finelog.rpc import logging_pb2 as log

        scope = log.MATCH_SCOPE_EXACT if exact else log.MATCH_SCOPE_PREFIX
        request = log.FetchLogsRequest(
            source=source, match_scope=scope, since_ms=since_ms, cursor=cursor, max_lines=limit
        )
        page = self._ask(lambda: self._read_logs().fetch_logs(request), "the job's log")
        if page is None:
            return LogPage((), cursor)
        entries = tuple(wire.log_entry(entry, source) for entry in page.entries)
        return LogPage(entries, max(cursor, int(page.cursor)))

    def cancel(self, job_id: str) -> bool:
        """End this job and nothing else; False where the controller does not know it."""
        client, name = self._client(None), self._name(job_id)

        def call() -> bool:
            client.cancel_job(name) if self._iris.generation == "B" else client.terminate(name)
            return True

        try:
            return bool(self._ask(lambda: bounded(call, CALL_S, "the stop"), "the stop"))
        finally:
            client.shutdown(wait=False)

    def launch(self, request: Mapping[str, Any], secrets: Mapping[str, str], bundle: Path) -> str:
        """Send the request with the bundle's files; returns the job's id as the controller has it.

        Raises ClusterError; a name that is taken is `iris.name-taken`.
        """
        client = self._client(bundle)
        arguments = self._arguments(client, request, secrets)
        try:
            job = bounded(lambda: client.submit(**arguments), LAUNCH_S, "the launch")
            return str(job.job_id.to_wire())
        except ClusterError:
            raise
        except self._iris.high.JobAlreadyExists:
            raise troubles.name_taken(str(request["name"])) from None
        except self._iris.ConnectError as error:
            raise troubles.explain(error.code.name, wire.redact(str(error), secrets)) from None
        except ValueError as error:  # the client's own checks, such as the bundle's size
            raise troubles.refused(wire.redact(str(error), secrets)) from None
        finally:
            client.shutdown(wait=False)

    def _arguments(
        self, client: Any, request: Mapping[str, Any], secrets: Mapping[str, str]
    ) -> dict[str, Any]:
        """Turn the wire's request into what this generation's `submit` takes."""
        iris, types, jobs = self._iris, self._iris.types, self._iris.jobs
        _, user, name = str(request["name"]).split("/")
        known = inspect.signature(client.submit).parameters
        argv = request["entrypoint"]["runCommand"]["argv"]
        arguments: dict[str, Any] = {
            "entrypoint": types.Entrypoint(command=list(argv)),
            "name": name,
            "user": user,
            "resources": wire.resources(types, request["resources"]),
            "environment": wire.environment(types, request["environment"]["envVars"], secrets),
            "replicas": request["replicas"],
            "max_retries_failure": request.get("maxRetriesFailure", 0),
            "max_retries_preemption": request.get("maxRetriesPreemption", 0),
            "max_task_failures": request.get("maxTaskFailures", 0),
            "existing_job_policy": jobs.ExistingJobPolicy.Value(request["existingJobPolicy"]),
            "task_image": request.get("taskImage"),
        }
        if "coscheduling" in request:
            group = request["coscheduling"]["groupBy"]
            arguments["coscheduling"] = types.CoschedulingConfig(group_by=group)
        if "priorityBand" in request:
            arguments["priority_band"] = jobs.PriorityBand.Value(request["priorityBand"])
        if "timeout" in request:
            seconds = int(request["timeout"]["milliseconds"]) / 1000
            arguments["timeout"] = iris.Duration.from_seconds(seconds)
        if "constraints" in request:
            arguments["constraints"] = [
                iris.constraints.Constraint.create(
                    c["key"], iris.constraints.ConstraintOp.EQ, value=c["value"]["stringValue"]
                )
                for c in request["constraints"]
            ]
        if "max_task_failures" not in known:  # before 0.2.31, which counted per task only
            del arguments["max_task_failures"]
        return arguments

    def _client(self, workspace: Path | None) -> Any:
        known = inspect.signature(self._iris.high.IrisClient.remote).parameters
        word = "credentials" if "credentials" in known else "token_provider"
        return self._iris.high.IrisClient.remote(
            self.url, workspace=workspace, **{word: self._credentials}
        )

    def _read(self) -> Any:
        if self._reader is None:
            self._reader = self._open_stub(self._iris.stub, self.url)
        return self._reader

    def _read_logs(self) -> Any:
        if self._log_reader is None:
            from finelog.rpc.logging_connect import LogServiceClientSync

            try:
                from rigging.connect import proxy_path
            except ImportError:  # a client of June 2026
                path = ""
            else:
                path = proxy_path(LOG_SERVER)
            self._log_reader = self._open_stub(LogServiceClientSync, f"{self.url}{path}")
        return self._log_reader

    def _open_stub(self, kind: Any, address: str) -> Any:
        return kind(
            address.rstrip("/"), timeout_ms=int(CALL_S * 1000), interceptors=self._interceptors(),
            send_compression=None,
        )  # fmt: skip

    def _interceptors(self) -> Sequence[Any]:
        if self._credentials is None:
            return []
        if hasattr(self._credentials, "interceptors"):
            return list(self._credentials.interceptors())
        from iris.rpc.auth import client_interceptors

        return list(client_interceptors(self._credentials))

    def _name(self, job_id: str) -> Any:
        try:
            return self._iris.types.JobName.from_wire(job_id)
        except ValueError as error:
            raise troubles.bad_id(job_id, str(error)) from None

    def _ask(self, call: Callable[[], T], what: str) -> T | None:
        """Ask once, which the stub's own limit bounds; None for NOT_FOUND."""
        try:
            return call()
        except self._iris.ConnectError as error:
            if error.code is self._iris.Code.NOT_FOUND:
                return None
            raise troubles.explain(error.code.name, str(error)) from None
        except (OSError, ValueError, RuntimeError) as error:
            raise troubles.rubbish(what, error) from None
