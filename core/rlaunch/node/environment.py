"""The environment of what the agent starts: files over the agent's own, and nothing of another Ray."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import struct
from collections.abc import Mapping

from .flags import Flags
from .reasons import BAD_FLAGS, Ending, fail

OF_ANOTHER_RAY = (
    "RAY_ADDRESS",
    "RAY_API_SERVER_ADDRESS",
    "RAY_AUTH_MODE",
    "RAY_AUTH_TOKEN",
    "RAY_AUTH_TOKEN_PATH",
    "RAY_CLIENT_MODE",
    "RAY_CLOUD_INSTANCE_ID",
    "RAY_CLUSTER_NAME",
    "RAY_FAKE_CLUSTER",
    "RAY_GCS_SERVER_PORT",
    "RAY_HEAD_SERVICE_HOST",
    "RAY_JOB_CONFIG_JSON_ENV_VAR",
    "RAY_JOB_ID",
    "RAY_JOB_SUBMISSION_ID",
    "RAY_LD_PRELOAD",
    "RAY_NAMESPACE",
    "RAY_NODE_ID",
    "RAY_NODE_IP_ADDRESS",
    "RAY_OVERRIDE_NODE_ID_FOR_TESTING",
    "RAY_OVERRIDE_RESOURCES",
    "RAY_RAYLET_PID",
    "RAY_REDIS_ADDRESS",
    "RAY_RUNTIME_ENV",
    "RAY_RUNTIME_ENV_HOOK",
    "RAY_SESSION_DIR",
    "RAY_START_HOOK",
    "RAY_TMPDIR",
    "RAY_WORKER_ID",
)
"""Names that tie a process to a Ray cluster; inherited ones are dropped, those of the env file stay."""


def read_env_file(path: str) -> dict[str, str]:
    """Read `{NAME: value}`; raises `Ending` with reason `bad-flags`, naming no value."""
    if not path:
        return {}
    try:
        with open(path, encoding="utf-8") as file:
            body = json.load(file)
    except OSError as error:
        raise Ending(fail(BAD_FLAGS, f"`{path}` cannot be read: {error.strerror}")) from error
    except ValueError as error:
        raise Ending(fail(BAD_FLAGS, f"`{path}` is not JSON")) from error
    if not isinstance(body, dict):
        raise Ending(fail(BAD_FLAGS, f"`{path}` is not a JSON object"))
    for name, value in body.items():
        if not name or "=" in name or "\0" in name or not isinstance(value, str) or "\0" in value:
            raise Ending(fail(BAD_FLAGS, f"`{path}`: `{name}` is not a name with a text"))
    return body


def build_environment(flags: Flags, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return what stage, Ray and driver get: inherited < env file < secrets file < the agent's own."""
    env = {name: value for name, value in inherited.items() if name not in OF_ANOTHER_RAY}
    env.update(read_env_file(flags.env_file))
    env.update(read_env_file(flags.secrets_file))
    if flags.pythonpath:
        paths = [*flags.pythonpath, *filter(None, [env.get("PYTHONPATH")])]
        env["PYTHONPATH"] = os.pathsep.join(paths)
    env.update(marks_of(flags))
    env["RLAUNCH_NODES"] = str(flags.nodes)
    env["PYTHONUNBUFFERED"] = "1"
    env["RAY_USAGE_STATS_ENABLED"] = "0"
    return env


def marks_of(flags: Flags) -> dict[str, str]:
    """Return the variables by which a node's processes are found again."""
    return {
        "RLAUNCH_RUN_ID": flags.run_id,
        "RLAUNCH_ATTEMPT": str(flags.attempt),
        "RLAUNCH_RANK": str(flags.rank),
    }


def add_ray(env: Mapping[str, str], *, auth: str, token: str, address: str = "") -> dict[str, str]:
    """Return `env` with Ray's authentication set explicitly, and the address where it is known.

    With the mode unset, Ray turns tokens on where an earlier run left `~/.ray/auth_token`, and the driver
    then waits 20 s for nothing (Ray 2.60, measured).
    """
    whole = {**env, "RAY_AUTH_MODE": auth}
    if auth == "token":
        whole["RAY_AUTH_TOKEN"] = token
    if address:
        whole["RAY_ADDRESS"] = address
    return whole


GLOO = "GLOO_SOCKET_IFNAME"
SIOCGIFADDR = 0x8915
"""Linux's request for an interface's IPv4 address (`linux/sockios.h`)."""


def add_gloo(env: Mapping[str, str], flags: Flags) -> dict[str, str]:
    """Return Ray's environment of this node with Gloo's interface: the one that has the node's address.

    Gloo goes by the host's name otherwise, and takes no list of exclusions as NCCL does. It is for Ray's
    processes, not for the driver: a trainer ships its own variables to all nodes, where the name differs.
    What the job sets itself stays.
    """
    name = "" if flags.nodes == 1 or GLOO in env else find_interface(flags.node_ip)
    return {**env, GLOO: name} if name else dict(env)


def find_interface(address: str) -> str:
    """Return the interface that has an IPv4 address; empty where none has it or nobody can say."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        for _, name in socket.if_nameindex():
            request = struct.pack("16s240x", os.fsencode(name)[:15])
            with contextlib.suppress(OSError):  # an interface without an address
                answer = fcntl.ioctl(asker, SIOCGIFADDR, request)
                if socket.inet_ntoa(answer[20:24]) == address:
                    return name
    return ""
