"""A small Kubernetes API of nodes, pods and queues over HTTP, for the real `kubernetes` client.

It stands where no cluster can run, and answers listings as the API server does: by selector, in pages.
"""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml


class Api:
    """What the API serves; tests change it while it runs."""

    def __init__(self, folder: Path) -> None:
        self.nodes: list[Any] = []
        self.pods: list[Any] = []
        self.queues = {"cw-use02a-lq"}
        self.raw: bytes | None = None
        """Answered to everything, where set."""
        self.status = 200
        self.asked: list[str] = []
        self.kubeconfig = folder / "kubeconfig"
        self.url = ""

    def write_config(self, url: str, context: str = "marin") -> None:
        """Write the kubeconfig that leads here."""
        self.url = url
        config = {
            "apiVersion": "v1", "kind": "Config", "current-context": "another",
            "clusters": [{"name": "c", "cluster": {"server": url}}],
            "users": [{"name": "u", "user": {"token": "kube-token"}}],
            "contexts": [{"name": context, "context": {"cluster": "c", "user": "u"}}],
        }  # fmt: skip
        self.kubeconfig.write_text(yaml.safe_dump(config), encoding="utf-8")

    def answer(self, path: str) -> tuple[int, bytes]:
        """Answer one GET."""
        self.asked.append(path)
        if self.raw is not None or self.status != 200:
            return self.status, self.raw or b"{}"
        parts = urlsplit(path)
        query = {k: v[0] for k, v in parse_qs(parts.query).items()}
        if "/localqueues/" in parts.path:
            return (200 if parts.path.rpartition("/")[2] in self.queues else 404), b"{}"
        items = self.nodes if parts.path == "/api/v1/nodes" else self.pods
        name, _, value = query.get("labelSelector", "").partition("=")
        if name:
            items = [i for i in items if i["metadata"].get("labels", {}).get(name) == value]
        start, limit = int(query.get("continue", 0)), int(query["limit"])
        page = items[start : start + limit]
        more = {"continue": str(start + limit)} if start + limit < len(items) else {}
        return 200, json.dumps({"items": page, "metadata": more}).encode()


@contextmanager
def serve(folder: Path) -> Iterator[Api]:
    """Serve on loopback."""
    api = Api(folder)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.headers.get("Authorization") != "Bearer kube-token":
                status, body = 401, b"{}"
            else:
                status, body = api.answer(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_request(self, code: object = "-", size: object = "-") -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        api.write_config(f"http://127.0.0.1:{server.server_port}")
        yield api
    finally:
        server.shutdown()
        server.server_close()
