"""A driver that tells what it was given: its arguments and its environment, as one line of its log.

It is what the kit runs instead of a trainer, on any cluster, with the job's Python and no package.
Values are told by their sha256, so that a secret's value is in no log.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

MARK = "rlaunch-probe "
"""Put together at run time in `SOURCE`: a log that shows the command has no such line."""

SOURCE = """\
import hashlib, json, os, sys, time
mode, names, words = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3:]
def tell(raw):
    return hashlib.sha256(raw).hexdigest()
try:
    with open("/proc/self/environ", "rb") as file:
        pairs = [item.partition(b"=")[::2] for item in file.read().split(b"\\0") if item]
except OSError:
    pairs = list(os.environb.items())
seen = {name: [tell(v) for k, v in pairs if k == name.encode()] for name in names}
said = {"argv": [tell(os.fsencode(w)) for w in words], "env": seen, "cwd": os.getcwd()}
print("rlaunch-" + "probe " + json.dumps(said), flush=True)
if mode == "hang":
    time.sleep(3600)
sys.exit(int(mode))
"""


class Told(NamedTuple):
    """What the probe saw, by sha256."""

    argv: tuple[str, ...]
    env: Mapping[str, tuple[str, ...]]
    """Every value that stands under the name; more than one is a duplicate."""


def command(python: str, mode: str, names: Sequence[str], words: Sequence[str]) -> tuple[str, ...]:
    """Return the probe's argv. `mode` is an exit code, or `hang`."""
    return (python, "-c", SOURCE, mode, json.dumps(list(names)), *words)


def hangs(argv: Sequence[str]) -> bool:
    """Tell whether argv is a probe that does not end by itself."""
    return len(argv) > 3 and argv[2] == SOURCE and argv[3] == "hang"


def digest(text: str) -> str:
    """Return what the probe tells of this text."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def read(lines: Iterable[str]) -> list[Told]:
    """Return what the probes among these lines told; a line may have a time or a name before it."""
    told = []
    for line in lines:
        _, mark, rest = line.partition(MARK)
        if mark:
            data = json.loads(rest)
            env = {name: tuple(values) for name, values in data["env"].items()}
            told.append(Told(tuple(data["argv"]), env))
    return told
