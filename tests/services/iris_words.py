"""A stand-in for the controller that speaks its wire: says any state, knows no scheduler, and can go wrong.

A real controller cannot be brought into every state at will. The services are the ones that Iris generates
from its own interface, so the real client talks to it without noticing.
"""

from __future__ import annotations

import io
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from connectrpc.code import Code
from connectrpc.errors import ConnectError
from finelog.rpc import logging_pb2
from finelog.rpc.logging_connect import LogServiceSync, LogServiceWSGIApplication
from iris.rpc import controller_pb2, job_pb2
from iris.rpc.controller_connect import ControllerServiceSync, ControllerServiceWSGIApplication

from rlaunch import State

RPC = controller_pb2.Controller
GATED = (
    "SchedulingGated: Scheduling is blocked due to non-empty scheduling gates; Kueue workload iris-pg-1: "
    "queue=q; QuotaReserved (Pending): no room"
)
STATES = {
    "pending": State.PENDING,
    "building": State.STARTING,
    "running": State.RUNNING,
    "running, tasks building": State.STARTING,
    "running, tasks gated": State.WAITING,
    "succeeded": State.SUCCEEDED,
    "failed": State.FAILED,
    "killed": State.KILLED,
    "worker_failed": State.WORKER_FAILED,
    "unschedulable": State.UNSCHEDULABLE,
}
FAULTS = ("HTTP 502", "an HTML page", "an empty answer", "a closed connection")
PROXY = "/proxy/system.log-server"
ENDED = ("succeeded", "failed", "killed", "worker_failed", "unschedulable")


class Words(ControllerServiceSync, LogServiceSync):
    """Jobs by id, each with the word that it is in."""

    def __init__(self) -> None:
        self.jobs: dict[str, str] = {}
        self.fault = ""
        self.url = ""
        self.requests = 0
        self._count = itertools.count(1)
        self._apps = (
            ControllerServiceWSGIApplication(self),
            LogServiceWSGIApplication(self),
        )

    def show(self, word: str) -> str:
        """Add a job in the word's state; one that is unknown becomes number 99."""
        job = f"/kit/shown-{next(self._count)}"
        self.jobs[job] = word
        return job

    def _state(self, job: str) -> int:
        name = self.jobs[job].partition(",")[0].upper()
        values = dict(job_pb2.JobState.items())
        return int(values.get(f"JOB_STATE_{name}", 99))

    def _status(self, job: str) -> Any:
        # an open enum takes 99, as the wire does when the controller is newer than the client
        return job_pb2.JobStatus(job_id=job, name=job, state=self._state(job), task_count=1)

    def _known(self, job: str) -> None:
        if job not in self.jobs:
            raise ConnectError(Code.NOT_FOUND, f"Job {job} not found")

    def get_job_status(self, request: Any, context: object) -> Any:
        """One job."""
        self._known(request.job_id)
        return RPC.GetJobStatusResponse(job=self._status(request.job_id))

    def list_jobs(self, request: Any, context: object) -> Any:
        """All jobs of a prefix."""
        prefix = request.query.job_id_prefix
        jobs = [self._status(job) for job in self.jobs if job.startswith(prefix)]
        return RPC.ListJobsResponse(jobs=jobs, total_count=len(jobs))

    def list_tasks(self, request: Any, context: object) -> Any:
        """One rank, in the state that the word says."""
        self._known(request.job_id)
        word = self.jobs[request.job_id]
        name = "BUILDING" if "tasks" in word else word.upper()
        state = dict(job_pb2.TaskState.items()).get(f"TASK_STATE_{name}", 99)
        task = job_pb2.TaskStatus(
            task_id=f"{request.job_id}/0", state=state, exit_code=7 if word == "failed" else 0,
            status_message=GATED if "gated" in word else "",
        )  # fmt: skip
        return RPC.ListTasksResponse(tasks=[task])

    def terminate_job(self, request: Any, context: object) -> Any:
        """End a job that has not ended."""
        self._known(request.job_id)
        if self.jobs[request.job_id] not in ENDED:
            self.jobs[request.job_id] = "killed"
        return job_pb2.Empty()

    def fetch_logs(self, request: Any, context: object) -> Any:
        """One line, at the first page."""
        entry = logging_pb2.LogEntry(data="one line", key=f"{request.source}0:0")
        return logging_pb2.FetchLogsResponse(entries=[] if request.cursor else [entry], cursor=1)

    def answer(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request, or go wrong."""
        self.requests += 1
        if self.fault:
            return self._wrong(start)
        length = int(environ.get("CONTENT_LENGTH") or 0)  # wsgiref gives the whole connection
        environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read(length))
        path = environ["PATH_INFO"]
        if path == "/health":
            start("200 OK", [("Content-Type", "application/json")])
            return [b'{"status": "ok"}']
        if path.startswith(PROXY):
            environ["PATH_INFO"] = path.removeprefix(PROXY)
            return self._apps[1](environ, start)
        return self._apps[0](environ, start)

    def _wrong(self, start: Callable[..., Any]) -> Iterable[bytes]:
        if self.fault == "a closed connection":
            raise ConnectionAbortedError
        status = "502 Bad Gateway" if self.fault == "HTTP 502" else "200 OK"
        start(status, [("Content-Type", "text/html")])
        return [b""] if self.fault == "an empty answer" else [b"<html>502 Bad Gateway</html>"]


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


class _Server(WSGIServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A fault that was asked for is no news."""


@contextmanager
def serve() -> Iterator[Words]:
    """Serve on loopback."""
    words = Words()
    server = make_server("127.0.0.1", 0, words.answer, server_class=_Server, handler_class=_Quiet)
    words.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield words
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
