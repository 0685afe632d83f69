"""Read-only looks at the Kubernetes cluster behind Iris, through the `kubernetes` client.

The kubeconfig is the profile's, or `KUBECONFIG`; the context is always the profile's, so the
operator's current one is neither used nor touched.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rlaunch.errors import ClusterError
from rlaunch_iris import troubles

AUTO = "auto"
USUAL = "~/.kube/coreweave-iris"
"""Where the Iris client's own configurations look, unless `KUBECONFIG` is exported."""
EXPORTED = "`KUBECONFIG`"
TIMEOUT_S = 4.0
PAGE = 500


class Kube:
    """A connection that lists; every request is bounded and there is no other kind."""

    def __init__(self, api: Any, source: str = "") -> None:
        self._api = api
        self.source = source
        """Which kubeconfig led here."""

    @property
    def host(self) -> str:
        """The API server's address."""
        return str(self._api.configuration.host)

    def nodes(self, selector: str) -> list[Mapping[str, Any]]:
        """List the nodes of the cluster."""
        return self._list("/api/v1/nodes", selector)

    def pods(self, selector: str = "", fields: str = "") -> list[Mapping[str, Any]]:
        """List pods of all namespaces."""
        return self._list("/api/v1/pods", selector, fields)

    def count_pods(self, job_id: str, namespace: str) -> int:
        """Count the pods of an Iris job, by its label (its id with dots for slashes)."""
        label = job_id.strip("/").replace("/", ".")
        path = f"/api/v1/namespaces/{namespace}/pods"
        return len(self._list(path, f"iris.job_id={label}"))

    def has_queue(self, namespace: str, name: str) -> bool | None:
        """Tell whether Kueue has the local queue; None where that may not be asked."""
        path = f"/apis/kueue.x-k8s.io/v1beta1/namespaces/{namespace}/localqueues/{name}"
        try:
            self._get(path, {})
        except ClusterError as error:
            return False if "HTTP 404" in str(error) else None
        return True

    def _list(self, path: str, selector: str, fields: str = "") -> list[Mapping[str, Any]]:
        items: list[Mapping[str, Any]] = []
        query = {"limit": str(PAGE), "labelSelector": selector, "fieldSelector": fields}
        while True:
            page = self._get(path, {k: v for k, v in query.items() if v})
            items.extend(page.get("items") or ())
            token = (page.get("metadata") or {}).get("continue")
            if not token:
                return items
            query["continue"] = str(token)

    def _ask(self, path: str, query: list[tuple[str, str]]) -> bytes:
        """Send one GET and return its body. The client's generic call changed with its version 37."""
        wanted: Any = {
            "query_params": query, "auth_settings": ["BearerToken"],
            "header_params": {"Accept": "application/json"},
        }  # fmt: skip
        if not hasattr(self._api, "param_serialize"):
            answer = self._api.call_api(
                path, "GET", **wanted, _preload_content=False, _return_http_data_only=True,
                _request_timeout=TIMEOUT_S,
            )  # fmt: skip
            return bytes(answer.data)
        from kubernetes.client.exceptions import ApiException

        sent = self._api.param_serialize("GET", path, **wanted)
        answer = self._api.call_api(*sent, _request_timeout=TIMEOUT_S)
        body = bytes(answer.read())
        if not 200 <= answer.status < 300:  # the newer call leaves the status to its caller
            raise ApiException(status=answer.status, reason=answer.reason)
        return body

    def _get(self, path: str, query: Mapping[str, str]) -> Mapping[str, Any]:
        from kubernetes.client.exceptions import OpenApiException
        from urllib3.exceptions import HTTPError

        try:
            page = json.loads(self._ask(path, list(query.items())))
        except ValueError as error:
            raise troubles.kube_failed(self.host, f"no JSON: {error}") from None
        except (HTTPError, OpenApiException, OSError) as error:
            status = getattr(error, "status", None)
            said = f"HTTP {status}" if status else troubles.one_line(str(error))[:200]
            raise troubles.kube_failed(self.host, said) from None
        if not isinstance(page, dict):
            raise troubles.kube_failed(self.host, "the listing is no object")
        return page


def open_kube(profile: Mapping[str, Any]) -> Kube | None:
    """Open the profile's Kubernetes cluster; None where the profile has none.

    A file that the profile or a flag names comes first, then `KUBECONFIG`, then the usual place, which is
    also read where `KUBECONFIG` has no way to the profile's context (it may be for another cluster). Raises
    ClusterError `iris.kubeconfig` for a file that is missing, broken or lacks the profile's context.
    """
    path, source = place_of(profile, os.environ)
    if not path:
        return None
    context = str(profile["kube_context"] or "")
    try:
        return _open(path, source, context)
    except ClusterError:
        if source == EXPORTED:
            with suppress(ClusterError):  # then `KUBECONFIG`'s own fault is the one to tell
                return _open(USUAL, "the usual place; `KUBECONFIG` leads nowhere", context)
        raise


def _open(path: str, source: str, context: str) -> Kube:
    """Open one kubeconfig, or several that are joined."""
    files = [os.path.expanduser(part) for part in path.split(os.pathsep)]  # noqa: PTH111  # `~nobody` stays
    there = [file for file in files if Path(file).is_file()]
    if not there:
        raise troubles.kubeconfig(path, f"there is no such file ({source})")
    try:
        from kubernetes import config
    except Exception as error:  # noqa: BLE001  # a broken installation fails in many ways
        raise troubles.kubeconfig(
            path, f"the `kubernetes` client does not import: {error}"
        ) from None
    try:
        api = config.new_client_from_config(
            config_file=os.pathsep.join(there),
            context=context or None,
            persist_config=False,
        )
        api.configuration.retries = False
    except ClusterError:
        raise
    except Exception as error:  # noqa: BLE001  # config's, yaml's and plug-ins' own
        said = f"{troubles.one_line(str(error))[:200]} ({source})"
        raise troubles.kubeconfig(path, said) from None
    return Kube(api, f"{source}: `{path}`")


def place_of(profile: Mapping[str, Any], environ: Mapping[str, str]) -> tuple[str, str]:
    """Return where the kubeconfig is, and by whose word. Several files are joined as in `KUBECONFIG`."""
    named = str(profile["kubeconfig"] or "")
    if named != AUTO:
        return named, "the setting `kubeconfig`"
    if any(environ.get("KUBECONFIG", "").split(os.pathsep)):
        return environ["KUBECONFIG"], EXPORTED
    return USUAL, "the usual place; `KUBECONFIG` is not set"
