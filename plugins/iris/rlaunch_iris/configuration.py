"""Iris's own configuration file, where `--cluster-config` names one."""

from __future__ import annotations

import os
from typing import Any

from rlaunch import reading
from rlaunch_iris import troubles


def read_config(given: str) -> str:
    """Return the file's whole path. Raises ClusterError `iris.config-invalid` for what no client could take.

    The schema is the installed client's and is judged by it alone.
    """
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        data = yaml.load(reading.read_text(given), Loader=loader)  # noqa: S506  # a safe loader
    except reading.NotReadable as error:
        raise troubles.bad_config(given, str(error)) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise troubles.bad_config(given, troubles.one_line(str(error))[:200]) from None
    if not isinstance(data, dict):
        raise troubles.bad_config(given, "it is no YAML mapping")
    return os.path.expanduser(given)  # noqa: PTH111  # as `reading` has found it
