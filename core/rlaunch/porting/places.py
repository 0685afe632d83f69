"""Which paths exist on a cluster, as far as its profile says. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

EVERYWHERE = ("/tmp", "/opt", "/app", "/dev/shm", "/usr", "/etc")  # noqa: S108  # named, not used
_FIELDS = (
    "run_dir", "storage_root", "data_root", "artifacts_dir", "rendezvous_dir", "temp_root", "workspace_dir",
    "hf_home",
)  # fmt: skip


def remote(path: str) -> bool:
    """Tell whether a path is the URL of an object store."""
    return "://" in path


def absolute(path: Any) -> bool:
    """Tell whether a value is an absolute path of a file system."""
    return isinstance(path, str) and path.startswith("/") and "\n" not in path


def fixed(text: str) -> str:
    """Return the beginning of a profile's path that is the same for every run and user."""
    return text.partition("{")[0]


def roots(profile: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the directories that a profile names, up to the first placeholder."""
    run_dir = str(profile.get("run_dir") or "")
    texts = [str(profile.get(field) or "").replace("{run_dir}", run_dir) for field in _FIELDS]
    texts += [str(bind).partition(":")[0] for bind in profile.get("binds") or ()]
    found = dict.fromkeys(fixed(text) for text in texts)
    return tuple(root for root in found if root.startswith("/") and root != "/")


def stores_remotely(profile: Mapping[str, Any]) -> bool:
    """Tell whether a cluster keeps runs in an object store, so that its file systems keep nothing."""
    return remote(str(profile.get("storage_root", "")))


def foreign(path: str, profile: Mapping[str, Any]) -> bool:
    """Tell whether nothing says that an absolute path exists on a cluster."""
    return not any(_below(path, root) for root in (*EVERYWHERE, *roots(profile)))


def _below(path: str, root: str) -> bool:
    plain = root.rstrip("/")
    cut_short = not root.endswith("/") and root.rpartition("/")[2].endswith(
        "-"
    )  # `/tmp/rlaunch-{run}`
    return path == plain or path.startswith(root if cut_short else f"{plain}/")
