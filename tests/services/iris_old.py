"""The adapter against the oldest client and controller (0.2.20, Python 3.11): run by that interpreter.

Prints one JSON document of what it saw. The client's date is moved to today, since that controller compares
it with the day and refuses its own client after two weeks.
"""

from __future__ import annotations

import datetime
import json
import sys
import tempfile
import time
import warnings
from pathlib import Path

warnings.simplefilter("ignore")

import iris.version  # noqa: E402
from tests.services.iris_controller import serve  # noqa: E402

import rlaunch_iris  # noqa: E402
from rlaunch import JobRef, Shell  # noqa: E402
from rlaunch.cluster import LogQuery  # noqa: E402
from rlaunch.testing.kit import read_profile  # noqa: E402
from rlaunch.world import SystemClock  # noqa: E402
from rlaunch_iris.cluster import Iris  # noqa: E402

iris.version._CACHED = datetime.datetime.now(datetime.UTC).date().isoformat()
SAY = (
    'cat "$IRIS_WORKDIR/_rlaunch/x"; echo; echo "$IRIS_TASK_ID|$A|$HF_TOKEN|$WANDB_API_KEY"; exit 7'
)


def request(name: str, *argv: str) -> dict[str, object]:
    """Make a request as a plan has it."""
    return {
        "name": f"/ada/{name}",
        "entrypoint": {"runCommand": {"argv": list(argv)}},
        "resources": {
            "cpuMillicores": 4000, "memoryBytes": str(1 << 30), "diskBytes": str(1 << 30),
            "device": {"gpu": {"variant": "H100", "count": 8}},
        },
        "environment": {"envVars": {"A": "a b"}}, "coscheduling": {"groupBy": "leafgroup"}, "replicas": 2,
        "existingJobPolicy": "EXISTING_JOB_POLICY_ERROR", "priorityBand": "PRIORITY_BAND_INTERACTIVE",
    }  # fmt: skip


def main() -> None:
    """Submit, watch, read, stop."""
    folder = Path(tempfile.mkdtemp(prefix="rl-old-"))
    (folder / "_rlaunch").mkdir()
    (folder / "_rlaunch/x").write_text("from the bundle")
    with serve("local", python=sys.executable) as controller:
        base = read_profile(rlaunch_iris.PROFILES["iris-local"])
        profile = Iris.Profile.model_validate({**base, "controller": controller.url})
        cluster = Iris(profile, Shell(), SystemClock())
        adapter = cluster.connect()
        fails = JobRef(
            "l", adapter.launch(request("fails", "bash", "-c", SAY), {"HF_TOKEN": "t"}, folder)
        )
        hangs = JobRef("l", adapter.launch(request("hangs", "sleep", "600"), {}, folder))
        absent = JobRef("l", "/ada/never")
        while not (seen := cluster.status([fails])[fails]).state.ended:
            time.sleep(0.5)
        while cluster.status([hangs])[hangs].state.value != "RUNNING":
            time.sleep(0.5)
        cluster.stop(hangs)
        time.sleep(3)
        lines = list(cluster.logs(LogQuery(fails)))
        many = cluster.status([fails, hangs, absent])
        said = {
            "health": adapter.health, "failed": [seen.state, seen.exit_code, seen.attempt],
            "lines": sorted({line.text for line in lines}), "ranks": sorted({line.rank for line in lines}),
            "many": [many[ref].state for ref in (fails, hangs, absent)],
        }  # fmt: skip
        cluster.close()
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
