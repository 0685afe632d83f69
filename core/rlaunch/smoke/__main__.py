"""`rlaunch-smoke.pyz [ARGUMENT]…` trains; `rlaunch-smoke.pyz stage --data-root DIR NAME…` stages.

Exit codes: 0 done · 1 failed · 2 an argument or a dataset cannot be used · `smoke.exit_code` where
a test asked for a failure.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from . import dataset
from .settings import SettingsError, read


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one of the two commands and return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _stage(words[1:]) if words[:1] == ["stage"] else _train(words)
    except (SettingsError, dataset.DataError) as error:
        return _fail(str(error), 2)


def _stage(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("rlaunch-smoke.pyz stage", allow_abbrev=False)
    parser.add_argument("--data-root", required=True, type=Path)
    parser.add_argument("names", nargs="+", metavar="NAME")
    asked = parser.parse_args(words)
    if dataset.failing_here():
        return _fail("staging fails on this rank, as RLAUNCH_SMOKE_STAGE_FAIL_RANKS asked", 1)
    staged = dataset.stage(asked.names, asked.data_root)
    body = {"staged": [{"name": s.name, "path": s.path, "count": s.tasks} for s in staged]}
    sys.stdout.write(json.dumps(body) + "\n")
    return 0


def _train(words: Sequence[str]) -> int:
    settings = read(words)
    # numpy and ray take a second to load: staging and a wrong argument do without them
    from .checkpoints import CheckpointError
    from .faults import FaultError
    from .gang import GangError
    from .trainer import train

    try:
        train(settings)
    except FaultError as error:
        return _fail(str(error), error.code)
    except (CheckpointError, GangError, OSError) as error:
        return _fail(str(error), 1)
    return 0


def _fail(message: str, code: int) -> int:
    sys.stdout.flush()
    sys.stderr.write(f"rlaunch-smoke: {message}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
