"""The environment as every process of a real gang has it: the driver, and the Ray actors of each node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rlaunch.model import State
from rlaunch.testing.kit import ENV

MORE = {
    "FIDELITY_TRAILING": "ends with a backslash \\",
    "FIDELITY_CRLF": "a\r\nb",
    "FIDELITY_SINGLE": "'",
    "FIDELITY_EXPORT": "a,b=c,ALL",
    "FIDELITY_BANG": "!! %PATH% ~ *",
    "FIDELITY_WIDE": "\u00a0\u2028e\u0301",
}


@pytest.mark.e2e
@pytest.mark.gang
@pytest.mark.timeout(240)
def test_every_process_has_the_same_bytes(lab: Any, tmp_path: Path) -> None:
    """Commas, blanks, quotes, newlines, unicode, `$`, empty: as planned in the driver and in all actors."""
    table = {**ENV, **MORE}
    run = lab.run(env=table)
    ref = lab.submit(lab.gang(run, f"++smoke.dump_env={tmp_path}/seen"))
    assert lab.end(ref, within=200).state is State.SUCCEEDED
    seen = {path.stem: json.loads(path.read_text()) for path in (tmp_path / "seen").iterdir()}
    assert sorted(seen) == ["driver", "node-0", "node-1"]
    for who, environ in seen.items():
        assert {name: environ.get(name) for name in table} == table, who
    ranks = {environ["RLAUNCH_RANK"] for who, environ in seen.items() if who != "driver"}
    assert ranks == {"0", "1"}, "the actors are not those of two nodes"
