"""The way to a controller: its URL, or through Iris's own configuration (a port-forward on CoreWeave)."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rlaunch.errors import ClusterError
from rlaunch_iris import adapter, troubles
from rlaunch_iris.configuration import read_config

HEALTH_S = 5.0


def open_controller(profile: Mapping[str, Any]) -> adapter.Controller:
    """Open the profile's controller and see that it is well. Raises ClusterError in bounded time."""
    if profile["controller"]:
        check_health(str(profile["controller"]))  # before the client, whose import takes a second
    iris = adapter.load()
    stack = ExitStack()
    try:
        if profile["controller"]:
            return adapter.Controller(iris, str(profile["controller"]), None, stack)
        name = str(profile["iris_cluster"] or profile["name"])
        url, credentials = adapter.bounded(
            lambda: _find(iris, profile, name, stack), adapter.CONNECT_S, f"the way to `{name}`"
        )
        check_health(url)
        return adapter.Controller(iris, url, credentials, stack)
    except BaseException:
        stack.close()
        raise


def check_health(url: str) -> None:
    """Ask `/health`; raises ClusterError `iris.controller-unreachable`.

    The client itself would try an unreachable controller for half an hour.
    """
    try:
        request = urllib.request.Request(f"{url.rstrip('/')}/health")  # noqa: S310  # the profile's URL
        with urllib.request.urlopen(request, timeout=HEALTH_S) as answer:  # noqa: S310  # as above
            said = json.loads(answer.read(1 << 16))
    except urllib.error.HTTPError as error:
        if error.code in (401, 403, 404):
            return  # somebody is there; the question itself will tell
        raise troubles.unreachable(url, f"HTTP {error.code}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise troubles.unreachable(url, troubles.one_line(str(reason))) from None
    if not isinstance(said, dict) or said.get("status") not in ("ok", "degraded", None):
        raise troubles.unreachable(url, f"it says `{str(said)[:80]}`")


def _find(
    iris: SimpleNamespace, profile: Mapping[str, Any], name: str, stack: ExitStack
) -> tuple[str, Any]:
    """Return URL and credentials through Iris's configuration, opening the tunnel that it needs."""
    given = str(profile["cluster_config"] or "")
    path = read_config(given) if given else ""
    try:
        if iris.generation == "B":
            return _find_b(path, name, stack)
        return _find_a(path, name, stack)
    except ClusterError:
        raise
    except Exception as error:  # noqa: BLE001  # click's, pydantic's, protobuf's and kubernetes' own
        said = troubles.one_line(getattr(error, "message", "") or str(error))[:300]
        kind = type(error).__name__
        if path and kind in {"ValidationError", "ParseError", "YAMLError", "ScannerError"}:
            raise troubles.bad_config(given, said) from None
        raise troubles.no_connection(name, said or kind) from None


def _find_b(path: str, name: str, stack: ExitStack) -> tuple[str, Any]:
    from iris.cli.connect import connect_controller

    where: dict[str, Any] = {"config_file": Path(path)} if path else {"cluster_name": name}
    endpoint = stack.enter_context(connect_controller(**where))
    return endpoint.url, endpoint.credentials


def _find_a(path: str, name: str, stack: ExitStack) -> tuple[str, Any]:
    """Do what that generation's command line does before it asks its first question."""
    from iris.cli.connect import IRIS_CLUSTER_CONFIG_DIRS
    from iris.cluster.config import IrisConfig
    from rigging.config_discovery import resolve_cluster_config

    file = path or str(resolve_cluster_config(name, dirs=IRIS_CLUSTER_CONFIG_DIRS))
    config = IrisConfig.load(file)
    bundle = config.provider_bundle()
    address = config.controller_address()
    if not address:
        address = bundle.controller.discover_controller(config.proto.controller)
    url = stack.enter_context(bundle.controller.tunnel(address=address))
    if not config.proto.HasField("auth"):
        return url, None
    from iris.cli.main import create_client_token_provider

    return url, create_client_token_provider(config.proto.auth, name)
